"""Sign in the owner whom a trusted proxy names, and ask for a confirmation where that is not enough.

`pdpp_site.connections` takes the name from the header of listed peers and from nobody else. The header
replaces the password only: a second factor is still asked for, and so is a confirmation before anything
in `PROTECTED`. The session ends with the first request that lacks the header.
"""

from django.conf import settings
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from typing_extensions import override

from owner.accounts import step_up
from owner.accounts.proxy_backend import is_proxy_session

PROTECTED = frozenset(
    {
        "remove-demo",
        "notification-add",
        "admin:evidence_erase",
        "admin:evidence_keep",
        "give-access",
        "admin:evidence_grant_token",
        "admin:password_change",
        "second-factor-settings",
        "backup-key",
        "backup-schedule",
        "owner-remove",
    }
)
"""Pages that erase, create keys or change how the owner signs in."""
PROTECTED_FORMS = frozenset({"account", "account-choices", "owners"})
"""Pages whose forms can delete records, replace a password or invite."""


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
        if not is_protected or not is_proxy_session(request) or not step_up.is_needed(request):
            return None
        return redirect(step_up.url(request.get_full_path()))
