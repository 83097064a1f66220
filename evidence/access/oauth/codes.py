"""Refresh tokens: each is good once, and whoever comes with a used one ends the whole family."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from evidence import limits
from evidence.access.crypto import bearer_digests, digest_for, digests_for, new_id
from evidence.access.grant_states import may_go_on
from evidence.access.grants import keep_token, revoke_token_id
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.oauth import (
    AuthorizationCode,
    FamilyMember,
    RefreshFamily,
    RefreshToken,
    Registration,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A family that may go on, held until the transaction ends."""

    family: RefreshFamily
    link: RefreshToken


class Replayed(Exception):  # noqa: N818 it is what happened
    """The refresh token had been used before. Its family has been ended."""


class Ended(Exception):  # noqa: N818 likewise
    """The refresh token is unknown, has expired, or what it stood for has ended."""


def may_refresh(package_id: str) -> bool:
    """Only continuous access is refreshed; what was granted for a single use is not."""
    rows = Grant.unscoped.filter(package_id=package_id)
    return not rows.exclude(access_mode=Grant.AccessMode.CONTINUOUS).exists()


def found_family(
    package: Package, *, registration: Registration, resource: str, scope: str, now: datetime
) -> RefreshFamily:
    """A new family, without a token yet."""
    return RefreshFamily.unscoped.create(
        family_id=new_id("fam_"),
        registration=registration,
        package=package,
        resource=resource,
        scope=scope,
        created_at=now,
    )


def present(refresh_token: str, *, registration: Registration, now: datetime) -> Standing:
    """The family of a refresh token. Call it in a transaction, which holds the family.

    Raises ``Ended``, and ``Replayed`` once all that came of the sign-in has been ended.
    """
    digests = digests_for("refresh token", refresh_token)
    families = RefreshFamily.unscoped.select_for_update(of=("self",)).select_related("package")
    family = families.filter(
        registration=registration,
        family_id__in=RefreshToken.unscoped.filter(digest__in=digests).values("family_id"),
    ).first()
    if family is None:
        raise Ended
    link = RefreshToken.unscoped.get(digest__in=digests)
    if link.replaced_at is not None:
        end_family(family.family_id, now=now)
        raise Replayed
    if family.revoked_at is not None or link.expires_at <= now:
        raise Ended
    if not may_go_on(family.package_id, now=now):
        raise Ended
    return Standing(family=family, link=link)


def replace(standing: Standing, *, now: datetime) -> None:
    """Uses up the link. Access tokens that came with it end by themselves, for requests may be on
    their way with them."""
    standing.link.replaced_at = now
    standing.link.save(update_fields=["replaced_at"])


def extend(
    family: RefreshFamily, *, access_token: str, refresh_token: str, now: datetime
) -> AccessToken:
    """The next link of the family, with an access token that lasts ten minutes."""
    idle = now + timedelta(seconds=limits.REFRESH_SECONDS)
    RefreshToken.unscoped.create(
        digest=digest_for("refresh token", refresh_token),
        family=family,
        created_at=now,
        expires_at=idle,
    )
    token = keep_token(
        access_token,
        package=family.package,
        resource=family.resource,
        now=now,
        expires_at=now + timedelta(seconds=limits.ACCESS_SECONDS),
    )
    FamilyMember.unscoped.create(token=token, family=family)
    return token


def end_family(family_id: str, *, now: datetime) -> None:
    """Ends a sign-in with everything that came of it. The grants stay."""
    RefreshFamily.unscoped.filter(family_id=family_id, revoked_at=None).update(revoked_at=now)
    _end_tokens(family_id, now=now)


def end_by_token(token: str, *, registration: Registration, now: datetime) -> None:
    """Ends the family of a refresh or access token of that client; nothing for any other."""
    of_refresh = RefreshToken.unscoped.filter(digest__in=digests_for("refresh token", token))
    of_access = FamilyMember.unscoped.filter(token__digest__in=bearer_digests(token))
    families = RefreshFamily.unscoped.filter(registration=registration)
    for rows in (of_refresh, of_access):
        for family in families.filter(family_id__in=rows.values("family_id")):
            end_family(family.family_id, now=now)
    AccessToken.unscoped.filter(
        digest__in=bearer_digests(token),
        revoked_at=None,
        package__client_id=registration.client_id,
    ).update(revoked_at=now)


def is_in_ended_family(token: AccessToken) -> bool:
    """Whether the token has ended together with its sign-in."""
    members = FamilyMember.unscoped.filter(token=token)
    return members.filter(family__revoked_at__isnull=False).exists()


def forget_families(now: datetime) -> int:
    """Deletes families whose last link has long expired; how many."""
    before = now - timedelta(seconds=limits.REFRESH_SECONDS)
    alive = RefreshToken.unscoped.filter(replaced_at=None, expires_at__gt=before)
    gone, _ = RefreshFamily.unscoped.exclude(family_id__in=alive.values("family_id")).delete()
    return gone


def _end_tokens(family_id: str, *, now: datetime) -> None:
    members = FamilyMember.unscoped.filter(family_id=family_id)
    AccessToken.unscoped.filter(token_id__in=members.values("token_id"), revoked_at=None).update(
        revoked_at=now
    )


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
