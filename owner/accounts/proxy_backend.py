"""Authentication by a proxy that the owner trusts (PDPP_PROXY_USER_HEADER)."""

from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.backends import RemoteUserBackend
from django.http import HttpRequest
from typing_extensions import override

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
