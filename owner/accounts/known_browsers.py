"""A browser that the owner has signed in with before: its failures are counted apart.

The cookie proves nothing but that. It lets nobody in, it only keeps strangers' failures from
counting against the owner.
"""

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase

from evidence.access.crypto import digests_for
from evidence.access.sign_in_throttle import Subject, address

LIFETIME_SECONDS = 365 * 24 * 3600
SALT = "pdpp/known browser"


def subjects(request: HttpRequest, name: str, *, kind: str = "account") -> tuple[Subject, ...]:
    """Whose failure it is when somebody fails to sign in as ``name``; ``kind`` says at which step."""
    try:
        known, whose = signing.loads(
            request.COOKIES.get(_cookie_name(), ""), salt=SALT, max_age=LIFETIME_SECONDS
        )
    except (signing.BadSignature, ValueError, TypeError):
        known, whose = "", ""
    if known and whose in _marks(name):
        return (Subject("browser", str(known)),)
    return (Subject(kind, name.casefold()), address(request.META.get("REMOTE_ADDR", "")))


def remember(response: HttpResponseBase, name: str) -> None:
    """The next failures in this browser are its own."""
    response.set_cookie(
        _cookie_name(),
        signing.dumps([secrets.token_urlsafe(16), _marks(name)[0]], salt=SALT),
        max_age=LIFETIME_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _cookie_name() -> str:
    return "__Host-known" if settings.SESSION_COOKIE_SECURE else "pdpp-known"


def _marks(name: str) -> list[str]:
    return [digest.hex()[:16] for digest in digests_for("known browser", name.casefold())]
