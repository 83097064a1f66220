"""Ask again for the second factor, or else the password, before something that is hard to undo.

A confirmation counts for ten minutes in its session. Signing in counts as one, but not signing in
through a proxy.
"""

from datetime import timedelta
from urllib.parse import urlencode

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

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
