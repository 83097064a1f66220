"""Guessing is slow: whoever fails too often to prove to be the owner has to wait.

Counted in the database, so for all processes together. An attempt is counted *before* it is
judged, under a lock, and taken back when it succeeds: many at once gain nothing. A wait grows with
each failure to a quarter of an hour at most and never longer; attempts during it count for nothing.
Who has signed in here before is counted by their browser instead, so that a stranger who fails on
purpose cannot keep the owner out. ``manage.py setup-link`` ends every wait at once.
"""

import ipaddress
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from evidence.access.crypto import digest_for
from evidence.models.accounts import Attempts

FREE = {"account": 5, "second factor": 5, "browser": 10, "address": 30}
"""So many failures of each cost nothing; the next one makes the one after it wait."""
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=15)
FORGOTTEN_AFTER = timedelta(hours=1)
LOCK_ATTEMPTS = """
-- Lock the counters of all subjects, and create those that are missing. One statement: between an
-- insert and a select, an attempt that succeeds could delete the row.
-- Parameters: digests in ascending order, so that two attempts cannot deadlock; the current time.
INSERT INTO evidence_attempts AS a (digest, failures, last_at)
SELECT digest, 0, %(now)s FROM unnest(%(digests)s::bytea[]) AS digest
ON CONFLICT (digest) DO UPDATE SET failures = a.failures
RETURNING a.digest, a.failures, a.last_at, a.blocked_until
"""


class TooManyAttempts(Exception):  # noqa: N818 - a state of affairs, not a mistake in the program
    """Too many attempts failed of late."""

    def __init__(self, wait: timedelta) -> None:
        self.retry_after = max(1, math.ceil(wait.total_seconds()))
        super().__init__(
            f"Too many attempts have failed. Wait {_in_words(self.retry_after)}, or run"
            " manage.py setup-link on the server."
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose failures are counted together; ``kind`` is a key of ``FREE``."""

    kind: str
    name: str

    @property
    def digest(self) -> bytes:
        return digest_for(f"attempts of {self.kind}", self.name)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One that counts as failed until it is said to have succeeded."""

    subjects: Sequence[Subject]

    def succeeded(self) -> None:
        digests = [subject.digest for subject in self.subjects]
        Attempts.unscoped.filter(digest__in=digests).delete()


def account(name: str) -> Subject:
    """An account by the name that was typed, whether or not there is one."""
    return Subject("account", name.casefold())


def address(remote: str) -> Subject:
    """Where a request came from; an IPv6 network counts as one, for it has addresses without end."""
    try:
        parsed = ipaddress.ip_address(remote)
    except ValueError:
        return Subject("address", "unknown")
    if parsed.version == 6:
        return Subject("address", str(ipaddress.ip_network((parsed, 64), strict=False)))
    return Subject("address", str(parsed))


@transaction.atomic
def begin(*subjects: Subject, now: datetime) -> Attempt:
    """Count an attempt of each of ``subjects``. Raises ``TooManyAttempts``, counting nothing."""
    kinds = {subject.digest: subject.kind for subject in subjects}
    rows = list(Attempts.unscoped.raw(LOCK_ATTEMPTS, {"digests": sorted(kinds), "now": now}))
    wait = max(_left(row, now) for row in rows)
    if wait > timedelta(0):
        raise TooManyAttempts(wait)
    for row in rows:
        _count(row, free=FREE[kinds[bytes(row.digest)]], now=now)
    return Attempt(subjects)


def forget(*, now: datetime) -> int:
    """Drop what counts no more."""
    count, _ = Attempts.unscoped.filter(last_at__lt=now - FORGOTTEN_AFTER).delete()
    return count


def release() -> None:
    """Nobody waits any longer."""
    Attempts.unscoped.all().delete()


def _left(row: Attempts, now: datetime) -> timedelta:
    left = row.blocked_until - now if row.blocked_until else timedelta(0)
    # More than that was never given: the clock has been set back, and nobody pays for it.
    return timedelta(0) if left > LONGEST_WAIT else left


def _count(row: Attempts, *, free: int, now: datetime) -> None:
    stale = abs(now - row.last_at) > FORGOTTEN_AFTER
    row.failures = 1 if stale else row.failures + 1
    row.last_at = now
    over = row.failures - free
    row.blocked_until = now + _wait(over) if over > 0 else None
    row.save()


def _wait(over: int) -> timedelta:
    return min(FIRST_WAIT * (1 << min(over - 1, 16)), LONGEST_WAIT)


def _in_words(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 90 else f"{math.ceil(seconds / 60)} minutes"
