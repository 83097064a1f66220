"""Sign in the owner whom a trusted proxy names, and ask again before something that is hard to undo.

`pdpp_site.connections` takes the name from the header of listed peers and from nobody else. The header
replaces the password only: a second factor is still asked for, and so is a confirmation before anything
in `PROTECTED`. The session ends with the first request that lacks the header. A confirmation counts for
ten minutes in its session. Signing in counts as one, but not signing in through a proxy.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, REDIRECT_FIELD_NAME
from django.contrib.auth.backends import RemoteUserBackend
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from owner import second_factor
from owner.permissions import is_owner_account


class ProxyBackend(RemoteUserBackend):
    """Accepts the owner's account by its user name. Creates no account."""

    create_unknown_user = False

    @override
    def clean_username(self, username: str) -> str:
        """Decode the header, which is UTF-8; a name in another charset is nobody's."""
        try:
            return username.encode("latin-1").decode()
        except UnicodeError:
            return ""

    @override
    def user_can_authenticate(self, user: Any) -> bool:
        return bool(settings.PDPP_PROXY_USER_HEADER) and is_owner_account(user)


PATH = f"{__name__}.{ProxyBackend.__name__}"


def is_proxy_session(request: HttpRequest) -> bool:
    """Return whether a proxy signed the session in. Reads no session that is not there."""
    if settings.SESSION_COOKIE_NAME not in request.COOKIES and not request.session.modified:
        return False
    return bool(request.session.get(BACKEND_SESSION_KEY) == PATH)


LIFETIME = timedelta(minutes=10)
_CONFIRMED_AT = "confirmed_at"


def mark_confirmed(request: HttpRequest) -> None:
    request.session[_CONFIRMED_AT] = timezone.now().timestamp()


def needs_confirmation(request: HttpRequest) -> bool:
    """Return whether the owner has to confirm: with a second factor, or behind a proxy."""
    user = request.user
    asks = is_proxy_session(request) or (isinstance(user, User) and second_factor.is_enrolled(user))
    return asks and not is_confirmed_recently(request)


def is_confirmed_recently(request: HttpRequest) -> bool:
    """Return whether this session was confirmed in the last ten minutes."""
    age: float = timezone.now().timestamp() - request.session.get(_CONFIRMED_AT, 0)
    return 0 <= age <= LIFETIME.total_seconds()


def confirmation_url(next_url: str) -> str:
    """Return the address of the page that asks, and then leads to `next_url`."""
    return reverse("confirm", query={REDIRECT_FIELD_NAME: next_url})


PROTECTED = frozenset((
    "remove-demo", "notification-add", "erase", "retention", "give-access", "grant-token", "password",
    "second-factor-settings", "backup-key", "backup-schedule", "owner-remove",
))  # fmt: skip
"""Pages that erase, create keys or change how the owner signs in."""
PROTECTED_FORMS = frozenset({"account", "account-choices", "collectors", "owners"})
"""Pages whose forms can delete records, create a token, replace a password or invite."""


class ProxySignInMiddleware(RemoteUserMiddleware):
    """Signs in on the sign-in page only, so that requests of apps start no session."""

    # No header and no variable of a web server has this name: only pdpp_site.wsgi_bridge sets it.
    header = "pdpp.proxy_user"

    @override
    def process_request(self, request: HttpRequest) -> None:
        is_on = bool(settings.PDPP_PROXY_USER_HEADER)
        if is_on and (request.path == reverse("login") or is_proxy_session(request)):
            super().process_request(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponse | None:
        """Ask for a confirmation first, where a proxy signed the owner in."""
        name = request.resolver_match.view_name if request.resolver_match else ""
        is_form = name in PROTECTED_FORMS and request.method == "POST"
        is_protected = name in PROTECTED or is_form
        if not is_protected or not is_proxy_session(request) or not needs_confirmation(request):
            return None
        return redirect(confirmation_url(request.get_full_path()))
