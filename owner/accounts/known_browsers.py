"""A signed cookie that marks browsers the owner has used.

Strangers' failures then do not lock the owner out. The cookie selects a separate failure counter; it
gives no access.
"""

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase

from evidence.access.crypto import digests_for
from owner.accounts.sign_in_throttle import ThrottleKey, address_key

LIFETIME_SECONDS = 365 * 24 * 3600
SALT = "pdpp/known browser"


def throttle_keys(
    request: HttpRequest, username: str, *, kind: str = "account"
) -> tuple[ThrottleKey, ...]:
    """Return the keys that a failed sign-in as `username` counts for; `kind` names the step."""
    try:
        browser_id, account_digest = signing.loads(
            request.COOKIES.get(_cookie_name(), ""), salt=SALT, max_age=LIFETIME_SECONDS
        )
    except (signing.BadSignature, ValueError, TypeError):
        browser_id, account_digest = "", ""
    if browser_id and account_digest in _account_digests(username):
        return (ThrottleKey("browser", str(browser_id)),)
    address = address_key(request.META.get("REMOTE_ADDR", ""))
    return (ThrottleKey(kind, username.casefold()), address)


def remember(response: HttpResponseBase, username: str) -> None:
    """Set the cookie, so that later failures in this browser count for the browser only."""
    response.set_cookie(
        _cookie_name(),
        signing.dumps([secrets.token_urlsafe(16), _account_digests(username)[0]], salt=SALT),
        max_age=LIFETIME_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _cookie_name() -> str:
    return "__Host-known" if settings.SESSION_COOKIE_SECURE else "pdpp-known"


def _account_digests(username: str) -> list[str]:
    return [digest.hex()[:16] for digest in digests_for("known browser", username.casefold())]
