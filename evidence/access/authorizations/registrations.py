"""Programs that introduce themselves, and how often they may."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q

from evidence import limits
from evidence.access.secrets import digest_for, digests_for, new_id
from evidence.models.authorizations import PendingRequest
from evidence.models.grants import Package
from evidence.models.registrations import Registration
from evidence.refusals import RateLimitExceeded

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
