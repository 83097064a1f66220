"""Authorization codes: good once, for two minutes, for the client and the address they went to."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from evidence import limits
from evidence.access.authorizations.families import end_family
from evidence.access.issuing import revoke_token_id
from evidence.access.secrets import digest_for
from evidence.models.authorizations import AuthorizationCode, RefreshFamily
from evidence.models.grants import AccessToken
from evidence.models.registrations import Registration

KEPT = timedelta(days=1)
"""How long a used code is remembered, so that a second use is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a code stands for."""

    package_id: str
    resource: str
    scope: str
    redirect_uri: str
    code_challenge: str


def keep_code(code: str, answer: Answer, *, registration: Registration, now: datetime) -> None:
    """Remembers a fresh code, and forgets those that nobody can use or misuse any more."""
    AuthorizationCode.unscoped.filter(expires_at__lt=now - KEPT).delete()
    AuthorizationCode.unscoped.create(
        digest=_digest(code),
        registration=registration,
        package_id=answer.package_id,
        resource=answer.resource,
        scope=answer.scope,
        redirect_uri=answer.redirect_uri,
        code_challenge=answer.code_challenge,
        created_at=now,
        expires_at=now + timedelta(seconds=limits.CODE_SECONDS),
    )


def take_code(code: str, *, registration: Registration, now: datetime) -> AuthorizationCode | None:
    """The code, which is used up by this, whatever else may be wrong with the request.

    None where it is unknown, expired or another client's. A second use ends what the first led to
    (RFC 6749, 4.1.2): one of the two was a thief's. Call it in a transaction.
    """
    rows = AuthorizationCode.unscoped.select_for_update(of=("self",)).select_related("package")
    row = rows.filter(digest=_digest(code), registration=registration).first()
    if row is None:
        return None
    if row.used_at is not None:
        _end_what_came_of(row, now)
        return None
    row.used_at = now
    row.save(update_fields=["used_at"])
    return row if row.expires_at > now else None


def note_outcome(
    row: AuthorizationCode, *, token: AccessToken, family: RefreshFamily | None
) -> None:
    """What the code led to."""
    row.token, row.family = token, family
    row.save(update_fields=["token", "family"])


def _end_what_came_of(row: AuthorizationCode, now: datetime) -> None:
    if row.family_id is not None:
        end_family(row.family_id, now=now)
    elif row.token_id is not None:
        revoke_token_id(row.token_id, now=now)


def _digest(code: str) -> bytes:
    return digest_for("authorization code", code)
