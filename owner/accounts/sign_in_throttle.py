"""Throttle failed sign-ins per account, browser and address, counted in the database.

Each failure beyond a free number doubles the delay, up to MAX_WAIT. An attempt is counted before its
password is checked, under a row lock, and removed when it succeeds, so parallel attempts gain
nothing. A signed cookie marks browsers that the owner has used. It gives no access; their failures are
counted separately, so that strangers cannot lock the owner out.
"""

import ipaddress
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponseBase

from evidence.access.crypto import digest_for, digests_for
from owner.models import Attempts

FREE_FAILURES = {"account": 5, "second factor": 5, "browser": 10, "address": 30}
"""Failures of each kind that cause no delay."""
FIRST_WAIT = timedelta(seconds=30)
MAX_WAIT = timedelta(minutes=15)
RESET_AFTER = timedelta(hours=1)
LOCK_ATTEMPTS = """
-- Lock the counters of all subjects, and create those that are missing. One statement: between an
-- insert and a select, an attempt that succeeds could delete the row.
-- Parameters: digests in ascending order, so that two attempts cannot deadlock; the current time.
INSERT INTO owner_attempts AS a (digest, failures, last_at)
SELECT digest, 0, %(now)s FROM unnest(%(digests)s::bytea[]) AS digest
ON CONFLICT (digest) DO UPDATE SET failures = a.failures
RETURNING a.digest, a.failures, a.last_at, a.blocked_until
"""


class ThrottledError(Exception):
    """Too many recent attempts failed. `retry_after` is in seconds."""

    def __init__(self, wait: timedelta) -> None:
        self.retry_after = max(1, math.ceil(wait.total_seconds()))
        seconds = self.retry_after
        wait_text = f"{seconds} seconds" if seconds < 90 else f"{math.ceil(seconds / 60)} minutes"
        super().__init__(
            f"Too many failed attempts. Try again in {wait_text}, or run"
            " manage.py setup-link on the server."
        )


@dataclass(frozen=True, slots=True)
class ThrottleKey:
    """Identifies what failures are counted for; `kind` is a key of FREE_FAILURES."""

    kind: str
    name: str

    @property
    def digest(self) -> bytes:
        return digest_for(f"attempts of {self.kind}", self.name)


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """An attempt that counts as failed until it succeeds."""

    keys: Sequence[ThrottleKey]

    def succeeded(self) -> None:
        """Delete the failures of all its keys."""
        digests = [key.digest for key in self.keys]
        Attempts.unscoped.filter(digest__in=digests).delete()


def address_key(remote: str) -> ThrottleKey:
    """Return the key of an IP address; a /64 network counts as one IPv6 address."""
    try:
        parsed = ipaddress.ip_address(remote)
    except ValueError:
        return ThrottleKey("address", "unknown")
    if parsed.version == 6:
        return ThrottleKey("address", str(ipaddress.ip_network((parsed, 64), strict=False)))
    return ThrottleKey("address", str(parsed))


@transaction.atomic
def record_attempt(*keys: ThrottleKey, now: datetime) -> RecordedAttempt:
    """Count an attempt for each key. Raises ThrottledError, counting nothing, during a delay."""
    kinds = {key.digest: key.kind for key in keys}
    rows = list(Attempts.unscoped.raw(LOCK_ATTEMPTS, {"digests": sorted(kinds), "now": now}))
    wait = max(_remaining_wait(row, now) for row in rows)
    if wait > timedelta(0):
        raise ThrottledError(wait)
    for row in rows:
        _count_failure(row, free_failures=FREE_FAILURES[kinds[bytes(row.digest)]], now=now)
    return RecordedAttempt(keys)


def delete_expired(*, now: datetime) -> int:
    """Delete counts that are no longer used, and return how many."""
    count, _ = Attempts.unscoped.filter(last_at__lt=now - RESET_AFTER).delete()
    return count


def reset_throttle() -> None:
    """End all delays."""
    Attempts.unscoped.all().delete()


def _remaining_wait(row: Attempts, now: datetime) -> timedelta:
    remaining = row.blocked_until - now if row.blocked_until else timedelta(0)
    # A longer delay is never set, so the clock was set back: do not make the owner wait for that.
    return timedelta(0) if remaining > MAX_WAIT else remaining


def _count_failure(row: Attempts, *, free_failures: int, now: datetime) -> None:
    is_stale = abs(now - row.last_at) > RESET_AFTER
    row.failures = 1 if is_stale else row.failures + 1
    row.last_at = now
    excess = row.failures - free_failures
    row.blocked_until = (
        now + min(FIRST_WAIT * (1 << min(excess - 1, 16)), MAX_WAIT) if excess > 0 else None
    )
    row.save()


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


def remember_browser(response: HttpResponseBase, username: str) -> None:
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
