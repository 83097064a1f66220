"""Questions that wait for the owner while a device or a command line asks again and again."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from evidence import limits
from evidence.access.secrets import digest_for, new_id
from evidence.models.authorizations import PendingRequest
from evidence.models.registrations import Registration
from evidence.refusals import RateLimitExceeded

Kind = PendingRequest.Kind
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels and no digits: nothing to misread, and no words (RFC 8628, 6.1)."""
KEPT = timedelta(days=1)
TOO_MANY = "The client has too many requests open."


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new question; ``handle`` and ``user_code`` are shown here and never again."""

    row: PendingRequest
    handle: str
    user_code: str | None


@transaction.atomic
def open_request(
    kind: PendingRequest.Kind,
    parameters: str,
    *,
    registration: Registration,
    resource: str,
    now: datetime,
    typed: bool = False,
) -> Opened:
    """A question for five minutes; with a code for a person to type where ``typed``.

    Raises ``RateLimitExceeded`` where the client has too many open.
    """
    PendingRequest.unscoped.filter(expires_at__lt=now - KEPT).delete()
    list(Registration.unscoped.select_for_update(no_key=True).filter(pk=registration.pk))
    mine = PendingRequest.unscoped.filter(registration=registration, expires_at__gt=now)
    if mine.count() >= limits.OPEN_QUESTIONS:
        raise RateLimitExceeded(message=TOO_MANY, retry_after=limits.QUESTION_SECONDS)
    handle = secrets.token_urlsafe(32)
    user_code = new_user_code() if typed else None
    row = PendingRequest.unscoped.create(
        request_id=new_id(
            "agc_" if kind is Kind.CONNECT else "par_" if kind is Kind.PUSHED else "dev_"
        ),
        kind=kind,
        handle=_handle(kind, handle),
        user_code=None if user_code is None else _user_code(user_code),
        registration=registration,
        resource=resource,
        parameters=parameters,
        interval_seconds=limits.POLL_SECONDS,
        created_at=now,
        expires_at=now + timedelta(seconds=limits.QUESTION_SECONDS),
    )
    return Opened(row=row, handle=handle, user_code=user_code)


def by_handle(kind: PendingRequest.Kind, handle: str) -> PendingRequest | None:
    """The question of that handle, in whatever state; held where there is a transaction."""
    rows = PendingRequest.unscoped.select_related("registration", "package")
    return rows.filter(kind=kind, handle=_handle(kind, handle)).first()


def by_handle_for_update(kind: PendingRequest.Kind, handle: str) -> PendingRequest | None:
    """The same, which nobody else can change until the transaction ends."""
    # A package that is joined is the one of before the lock: none, where the owner answers meanwhile.
    held = PendingRequest.unscoped.select_for_update()
    return held.filter(kind=kind, handle=_handle(kind, handle)).first()


def by_user_code(typed: str, *, now: datetime) -> PendingRequest | None:
    """The open question of the code that somebody typed, however they wrote it."""
    rows = PendingRequest.unscoped.select_related("registration")
    return rows.filter(user_code=_user_code(typed), decided_at=None, expires_at__gt=now).first()


def decide(row: PendingRequest, *, package_id: str | None, now: datetime) -> bool:
    """The owner's answer, None for a no; False where the question had been answered before."""
    waiting = PendingRequest.unscoped.filter(pk=row.pk, decided_at=None, expires_at__gt=now)
    return bool(waiting.update(decided_at=now, package_id=package_id))


def note_poll(row: PendingRequest, *, now: datetime) -> bool:
    """Whether the client has waited as long as it was told; where not, it must wait longer."""
    earliest = row.polled_at and row.polled_at + timedelta(seconds=row.interval_seconds)
    patient = earliest is None or now >= earliest - timedelta(milliseconds=500)
    row.polled_at = now
    if not patient:
        row.interval_seconds += 5
    row.save(update_fields=["polled_at", "interval_seconds"])
    return patient


def use_up(row: PendingRequest, *, now: datetime) -> None:
    """The answer has been fetched."""
    row.used_at = now
    row.save(update_fields=["used_at"])


def new_user_code() -> str:
    """``BCDF-GHJK``: 34 bits, for five minutes and a signed-in owner only."""
    letters = "".join(secrets.choice(ALPHABET) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def _handle(kind: PendingRequest.Kind, handle: str) -> bytes:
    return digest_for(f"{kind} handle", handle)


def _user_code(typed: str) -> bytes:
    letters = "".join(each for each in typed.upper() if each.isalnum())
    return digest_for("user code", letters)
