"""Ask again for the second factor, or else the password, before something that is hard to undo.

A confirmation counts for ten minutes in its session. Signing in counts as one, but not signing in
through a proxy.

A proxy that the owner trusts signs in by a user name. `pdpp_site.connections` takes the name from the
header of listed peers and from nobody else. The header replaces the password only: a second factor is
still asked for, and so is a confirmation before anything in `PROTECTED`. The session ends with the
first request that lacks the header.
"""

from datetime import timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from owner import second_factor
from owner.accounts.proxy_backend import is_proxy_session

LIFETIME = timedelta(minutes=10)
_CONFIRMED_AT = "confirmed_at"


def mark_confirmed(request: HttpRequest) -> None:
    request.session[_CONFIRMED_AT] = timezone.now().timestamp()


def is_needed(request: HttpRequest) -> bool:
    """Return whether the owner has to confirm: with a second factor, or behind a proxy."""
    user = request.user
    asks = is_proxy_session(request) or (isinstance(user, User) and second_factor.is_enrolled(user))
    return asks and not is_recent(request)


def is_recent(request: HttpRequest) -> bool:
    """Return whether this session was confirmed in the last ten minutes."""
    age: float = timezone.now().timestamp() - request.session.get(_CONFIRMED_AT, 0)
    return 0 <= age <= LIFETIME.total_seconds()


def url(next_url: str) -> str:
    """Return the address of the page that asks, and then leads to `next_url`."""
    return f"{reverse('confirm')}?{urlencode({REDIRECT_FIELD_NAME: next_url})}"


PROTECTED = frozenset(
    {
        "remove-demo",
        "notification-add",
        "admin:evidence_erase",
        "admin:evidence_keep",
        "give-access",
        "admin:evidence_grant_token",
        "admin:password_change",
        "admin:second_factor",
        "backup-key",
        "backup-schedule",
        "backup-store",
    }
)
"""Pages that erase, create keys or change how the owner signs in."""
PROTECTED_FORMS = frozenset({"account", "account-choices"})
"""Pages whose forms can delete records or replace a password."""


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
        if not is_protected or not is_proxy_session(request) or not is_needed(request):
            return None
        return redirect(url(request.get_full_path()))
