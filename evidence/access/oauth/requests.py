"""Programs that introduce themselves, and how often they may."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from evidence import limits
from evidence.access.crypto import digest_for, digests_for, new_id
from evidence.errors import RateLimitExceeded
from evidence.models.grants import Package
from evidence.models.oauth import PendingRequest, Registration

HOUR = timedelta(hours=1)
TOO_MANY = "Too many clients have been registered in the last hour."


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a program says of itself, already found well formed."""

    name: str
    redirect_uris: Sequence[str]
    grant_types: Sequence[str]
    auth_method: str
    metadata: Mapping[str, Any]


def register(said: Introduction, *, address: str, now: datetime) -> tuple[Registration, str | None]:
    """A new registration, with its secret where the method needs one: shown here and never again.

    Raises ``RateLimitExceeded``.
    """
    forget_unused(now)
    mark = digest_for("registering address", address)[:16]
    _check_rate(mark, now)
    secret = None if said.auth_method == "none" else secrets.token_urlsafe(32)
    row = Registration.unscoped.create(
        client_id=new_id("cli_"),
        source=Registration.Source.DYNAMIC,
        registered_from=mark,
        created_at=now,
        secret_digest=None if secret is None else _secret_digest(secret),
        **_said(said),
    )
    return row, secret


def keep_document(
    client_id: str, said: Introduction, *, fresh_until: datetime, now: datetime
) -> Registration:
    """What the program's own document says, in place of what it said before."""
    row, _ = Registration.unscoped.update_or_create(
        client_id=client_id,
        source=Registration.Source.DOCUMENT,
        defaults={"fresh_until": fresh_until, **_said(said)},
        create_defaults={
            "source": Registration.Source.DOCUMENT,
            "created_at": now,
            "fresh_until": fresh_until,
            **_said(said),
        },
    )
    return row


def found(client_id: str | None) -> Registration | None:
    """The registration of that id. None for what no id can be, too."""
    if not client_id or "\x00" in client_id:
        return None
    return Registration.unscoped.filter(client_id=client_id).first()


def is_secret(secret: str, digest: bytes) -> bool:
    """Whether ``digest`` was made of it."""
    known = digests_for("client secret", secret)
    return any(secrets.compare_digest(digest, each) for each in known)


def note_use(row: Registration, *, now: datetime) -> None:
    """The owner has answered it, so it is no longer a stranger's."""
    Registration.unscoped.filter(pk=row.pk).update(used_at=now)


def forget_unused(now: datetime) -> int:
    """Deletes registrations that nobody has signed in with for three days; how many."""
    held = Package.unscoped.filter(client_id=OuterRef("client_id"))
    waiting = PendingRequest.unscoped.filter(registration=OuterRef("pk"), expires_at__gt=now)
    rows = Registration.unscoped.filter(
        ~Exists(held),
        ~Exists(waiting),
        ~Q(source=Registration.Source.OWNER),
        used_at=None,
        created_at__lt=now - timedelta(seconds=limits.REGISTRATION_UNUSED_SECONDS),
    )
    deleted, _ = rows.delete()
    return deleted


def _check_rate(mark: bytes, now: datetime) -> None:
    recent = Registration.unscoped.filter(
        source=Registration.Source.DYNAMIC, created_at__gt=now - HOUR
    )
    from_there = recent.filter(registered_from=mark).count()
    if from_there >= limits.REGISTRATIONS_PER_ADDRESS:
        raise RateLimitExceeded(message=TOO_MANY, retry_after=600)
    if recent.filter(used_at=None).count() >= limits.REGISTRATIONS_PER_HOUR:
        raise RateLimitExceeded(message=TOO_MANY, retry_after=600)


def _said(said: Introduction) -> dict[str, Any]:
    return {
        "name": said.name,
        "redirect_uris": list(said.redirect_uris),
        "grant_types": list(said.grant_types),
        "auth_method": said.auth_method,
        "metadata": dict(said.metadata),
    }


def _secret_digest(secret: str) -> bytes:
    return digest_for("client secret", secret)


Kind = PendingRequest.Kind
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels and no digits: nothing to misread, and no words (RFC 8628, 6.1)."""
KEPT = timedelta(days=1)
TOO_MANY_PENDING = "The client has too many requests open."


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
        raise RateLimitExceeded(message=TOO_MANY_PENDING, retry_after=limits.QUESTION_SECONDS)
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
