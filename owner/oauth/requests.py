"""Register OAuth clients (RFC 7591) and keep their pending authorization requests."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from typing_extensions import override

from evidence import limits
from evidence.access.crypto import digest_for, digests_for, new_id
from evidence.errors import RateLimitExceeded
from evidence.models.clients import Client
from evidence.models.owners import across_owners, current_owner
from evidence.write.app_data import AppData
from owner.oauth.models import (
    AuthorizationCode,
    FamilyMember,
    PendingRequest,
    RefreshFamily,
    RefreshToken,
    Registration,
)
from owner.oauth.tokens import delete_expired_families

HOUR = timedelta(hours=1)
TOO_MANY_CLIENTS = "Too many clients have been registered in the last hour."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadata:
    """Validated client metadata (RFC 7591)."""

    name: str
    redirect_uris: Sequence[str]
    grant_types: Sequence[str]
    auth_method: str
    metadata: Mapping[str, Any]


def register_dynamic_client(
    client: ClientMetadata, *, address: str, now: datetime
) -> tuple[Registration, str | None]:
    """Register a client and return its secret, if its authentication method needs one.

    The database stores only a digest of the secret. Raises ``RateLimitExceeded``.
    """
    delete_unused_registrations(now)
    address_digest = digest_for("registering address", address)[:16]
    _check_rate(address_digest, now)
    secret = None if client.auth_method == "none" else secrets.token_urlsafe(32)
    row = Registration.unscoped.create(
        client_id=new_id("cli_"),
        source=Registration.Source.DYNAMIC,
        registered_from=address_digest,
        created_at=now,
        secret_digest=None if secret is None else digest_for("client secret", secret),
        **_columns(client),
    )
    return row, secret


def store_client_document(
    client_id: str, client: ClientMetadata, *, fresh_until: datetime, now: datetime
) -> Registration:
    """Store the metadata document of a client in place of its previous one."""
    row, _ = Registration.unscoped.update_or_create(
        client_id=client_id,
        source=Registration.Source.DOCUMENT,
        defaults={"fresh_until": fresh_until, **_columns(client)},
        create_defaults={
            "source": Registration.Source.DOCUMENT,
            "created_at": now,
            "fresh_until": fresh_until,
            **_columns(client),
        },
    )
    return row


def find_registration(client_id: str | None) -> Registration | None:
    """Return the registration of a client, or None."""
    if not client_id or "\x00" in client_id:
        return None
    return Registration.unscoped.filter(client_id=client_id).first()


def is_client_secret(secret: str, digest: bytes) -> bool:
    """Return whether ``digest`` is a digest of the client secret."""
    digests = digests_for("client secret", secret)
    return any(secrets.compare_digest(digest, candidate) for candidate in digests)


def mark_registration_used(row: Registration, *, now: datetime) -> None:
    """Mark a registration as used, because the owner has answered a request of the client."""
    Registration.unscoped.filter(pk=row.pk).update(used_at=now)


def was_answered(client_id: str) -> bool:
    """Return whether the owner has answered a request of the client."""
    return Registration.unscoped.filter(client_id=client_id).exclude(used_at=None).exists()


def delete_unused_registrations(now: datetime) -> int:
    """Delete registrations that were not used for three days. Returns their number."""
    open_requests = PendingRequest.unscoped.filter(registration=OuterRef("pk"), expires_at__gt=now)
    rows = Registration.unscoped.filter(
        ~Exists(open_requests),
        ~Q(source=Registration.Source.OWNER),
        used_at=None,
        created_at__lt=now - timedelta(seconds=limits.REGISTRATION_UNUSED_SECONDS),
    )
    deleted, _ = rows.delete()
    return deleted


def _check_rate(address_digest: bytes, now: datetime) -> None:
    recent = Registration.unscoped.filter(
        source=Registration.Source.DYNAMIC, created_at__gt=now - HOUR
    )
    from_address = recent.filter(registered_from=address_digest).count()
    if from_address >= limits.REGISTRATIONS_PER_ADDRESS:
        raise RateLimitExceeded(message=TOO_MANY_CLIENTS, retry_after=600)
    if recent.filter(used_at=None).count() >= limits.REGISTRATIONS_PER_HOUR:
        raise RateLimitExceeded(message=TOO_MANY_CLIENTS, retry_after=600)


def _columns(client: ClientMetadata) -> dict[str, Any]:
    return {
        "name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "auth_method": client.auth_method,
        "metadata": dict(client.metadata),
    }


Kind = PendingRequest.Kind
USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of user codes, without vowels and digits (RFC 8628, 6.1)."""
REQUEST_RETENTION = timedelta(days=1)
TOO_MANY_PENDING = "The client has too many requests open."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRequest:
    """A new authorization request. The database stores only digests of handle and user code."""

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
) -> OpenedRequest:
    """Open an authorization request for five minutes, with a user code if ``typed``.

    Raises ``RateLimitExceeded`` if the client has too many open requests.
    """
    PendingRequest.unscoped.filter(expires_at__lt=now - REQUEST_RETENTION).delete()
    list(Registration.unscoped.select_for_update(no_key=True).filter(pk=registration.pk))
    open_requests = PendingRequest.unscoped.filter(registration=registration, expires_at__gt=now)
    if open_requests.count() >= limits.OPEN_QUESTIONS:
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
    return OpenedRequest(row=row, handle=handle, user_code=user_code)


def find_by_handle(kind: PendingRequest.Kind, handle: str) -> PendingRequest | None:
    """Return the request of a handle, in any state."""
    rows = PendingRequest.unscoped.select_related("registration")
    return rows.filter(kind=kind, handle=_handle(kind, handle)).first()


def lock_by_handle(kind: PendingRequest.Kind, handle: str) -> PendingRequest | None:
    """Return the request of a handle, locked until the transaction ends."""
    locked = PendingRequest.unscoped.select_for_update()
    return locked.filter(kind=kind, handle=_handle(kind, handle)).first()


def find_by_user_code(typed: str, *, now: datetime) -> PendingRequest | None:
    """Return the open request of a user code, ignoring case and punctuation."""
    rows = PendingRequest.unscoped.select_related("registration")
    return rows.filter(user_code=_user_code(typed), decided_at=None, expires_at__gt=now).first()


def decide(
    row: PendingRequest,
    *,
    now: datetime,
    package_id: str | None = None,
    connection_ids: Sequence[str] | None = None,
) -> bool:
    """Store what the owner allowed; nothing means denied. Returns False if already decided.

    A client gets a package that it reads, a collector gets connections that it writes to.
    """
    undecided = PendingRequest.unscoped.filter(pk=row.pk, decided_at=None, expires_at__gt=now)
    allowed = {"package_id": package_id, "connection_ids": connection_ids}
    return bool(undecided.update(decided_at=now, owner_id=current_owner(), **allowed))


def record_poll(row: PendingRequest, *, now: datetime) -> bool:
    """Record a poll and return whether the client kept its interval; if not, lengthen the interval."""
    earliest = row.polled_at and row.polled_at + timedelta(seconds=row.interval_seconds)
    kept_interval = earliest is None or now >= earliest - timedelta(milliseconds=500)
    row.polled_at = now
    if not kept_interval:
        row.interval_seconds += 5
    row.save(update_fields=["polled_at", "interval_seconds"])
    return kept_interval


def mark_answer_fetched(row: PendingRequest, *, now: datetime) -> None:
    """Mark the decision as fetched by the client."""
    row.used_at = now
    row.save(update_fields=["used_at"])


def new_user_code() -> str:
    """Return a user code like ``BCDF-GHJK``: 34 bits, valid for five minutes for the signed-in owner."""
    letters = "".join(secrets.choice(USER_CODE_ALPHABET) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def _handle(kind: PendingRequest.Kind, handle: str) -> bytes:
    return digest_for(f"{kind} handle", handle)


def _user_code(typed: str) -> bytes:
    letters = "".join(char for char in typed.upper() if char.isalnum())
    return digest_for("user code", letters)


class OAuthData(AppData):
    """Registrations, authorization requests, codes and refresh tokens."""

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        rows = (
            AuthorizationCode.unscoped.all(),
            PendingRequest.unscoped.filter(owner_id=owner_id),
            FamilyMember.unscoped.all(),
            RefreshToken.unscoped.all(),
            RefreshFamily.unscoped.all(),
        )
        removed = Counter({"sign-ins": sum(each.delete()[0] for each in rows)})
        # An app that another owner connected too stays registered.
        own = set(Client.unscoped.values_list("client_id", flat=True))
        with across_owners():
            others = Client.unscoped.exclude(owner_id=owner_id).filter(client_id__in=own)
            own.difference_update(others.values_list("client_id", flat=True))
        removed["clients"] = Registration.unscoped.filter(client_id__in=own).delete()[0]
        return removed

    @override
    def delete_expired(self, now: datetime) -> Counter[str]:
        return Counter(
            {
                "unused client registrations": delete_unused_registrations(now),
                "ended sign-ins": delete_expired_families(now),
            }
        )
