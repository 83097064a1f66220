"""Redeem authorization codes, rotate refresh tokens, and build token and introspection responses.

A code or refresh token that is used twice revokes everything that came of its sign-in.
"""

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from evidence import limits
from evidence.access.crypto import (
    ACCESS_PREFIX,
    bearer_digests,
    digest_for,
    digests_for,
    new_id,
    new_secret,
    owner_of_bearer,
)
from evidence.access.grant_states import (
    active_grants,
    authorization_detail,
    grant_reference,
    is_refreshable,
    usable_until,
)
from evidence.access.tokens import create_collector, revoke_token_id, store_token
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.owners import act_for, current_owner
from owner.oauth.models import (
    AuthorizationCode,
    FamilyMember,
    PendingRequest,
    RefreshFamily,
    RefreshToken,
    Registration,
)
from owner.oauth.responses import COLLECT_SCOPE


class RefreshTokenReplayed(Exception):  # noqa: N818 names what happened
    """The refresh token was used long before, and its family was revoked."""


class RefreshTokenEnded(Exception):  # noqa: N818 names what happened
    """The refresh token is unknown or expired, or its grants have ended."""


def lock_refresh_session(
    refresh_token: str, *, registration: Registration, now: datetime
) -> RefreshToken:
    """Return a valid refresh token, whose family is locked until the transaction ends.

    A used token works for ten more seconds, because a host may run several processes or lose a
    response. Raises ``RefreshTokenEnded``, or ``RefreshTokenReplayed`` after ending the family.
    """
    digests = digests_for("refresh token", refresh_token)
    families = RefreshFamily.unscoped.select_for_update(of=("self",)).select_related("package")
    family = families.filter(
        registration=registration,
        family_id__in=RefreshToken.unscoped.filter(digest__in=digests).values("family_id"),
    ).first()
    if family is None:
        raise RefreshTokenEnded
    row = RefreshToken.unscoped.get(digest__in=digests)
    row.family = family
    grace = timedelta(seconds=limits.REFRESH_GRACE_SECONDS)
    if row.replaced_at is not None and row.replaced_at + grace <= now:
        end_family(family.family_id, now=now)
        raise RefreshTokenReplayed
    if family.revoked_at is not None or row.expires_at <= now:
        raise RefreshTokenEnded
    if not is_refreshable(family.package_id, now=now):
        raise RefreshTokenEnded
    return row


def extend_family(
    family: RefreshFamily, *, access_token: str, refresh_token: str, now: datetime
) -> AccessToken:
    """Add a refresh token to the family, with an access token that lasts ten minutes."""
    idle = now + timedelta(seconds=limits.REFRESH_SECONDS)
    RefreshToken.unscoped.create(
        digest=digest_for("refresh token", refresh_token),
        family=family,
        created_at=now,
        expires_at=idle,
    )
    token = store_token(
        access_token,
        package=family.package,
        resource=family.resource,
        now=now,
        expires_at=now + timedelta(seconds=limits.ACCESS_SECONDS),
    )
    FamilyMember.unscoped.create(token=token, family=family)
    return token


def end_family(family_id: str, *, now: datetime) -> None:
    """Revoke a sign-in and its tokens. The grants stay."""
    RefreshFamily.unscoped.filter(family_id=family_id, revoked_at=None).update(revoked_at=now)
    members = FamilyMember.unscoped.filter(family_id=family_id).values("token_id")
    AccessToken.unscoped.filter(token_id__in=members, revoked_at=None).update(revoked_at=now)


def revoke_by_token(token: str, *, registration: Registration, now: datetime) -> None:
    """Revoke the family of a refresh or access token, if the token belongs to the client."""
    refresh_tokens = RefreshToken.unscoped.filter(digest__in=digests_for("refresh token", token))
    access_tokens = FamilyMember.unscoped.filter(token__digest__in=bearer_digests(token))
    families = RefreshFamily.unscoped.filter(registration=registration)
    for rows in (refresh_tokens, access_tokens):
        for family in families.filter(family_id__in=rows.values("family_id")):
            end_family(family.family_id, now=now)
    AccessToken.unscoped.filter(
        digest__in=bearer_digests(token), revoked_at=None, package__client_id=registration.client_id
    ).update(revoked_at=now)


def delete_expired_families(now: datetime) -> int:
    """Delete families whose last refresh token expired long ago. Returns their number."""
    before = now - timedelta(seconds=limits.REFRESH_SECONDS)
    alive = RefreshToken.unscoped.filter(replaced_at=None, expires_at__gt=before)
    deleted, _ = RefreshFamily.unscoped.exclude(family_id__in=alive.values("family_id")).delete()
    return deleted


CODE_PREFIX = "pdpp_ac_"
USED_CODE_RETENTION = timedelta(days=1)
"""Time to keep used codes, so that a second use is detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTerms:
    """What an authorization code was issued for."""

    package_id: str
    resource: str
    scope: str
    redirect_uri: str
    code_challenge: str


def create_code(answer: CodeTerms, *, registration: Registration, now: datetime) -> str:
    """Return a new code of the owner, and delete codes that expired long ago."""
    code = new_secret(CODE_PREFIX)
    AuthorizationCode.unscoped.filter(expires_at__lt=now - USED_CODE_RETENTION).delete()
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
    return code


def redeem_code(
    code: str, *, registration: Registration, now: datetime
) -> AuthorizationCode | None:
    """Use a code up and return it, or None if it is unknown, expired or of another client.

    A second use revokes the tokens of the first, because one of the two uses was not by the client
    (RFC 6749, 4.1.2). Call it in a transaction.
    """
    rows = AuthorizationCode.unscoped.select_for_update(of=("self",)).select_related("package")
    row = rows.filter(digest=_digest(code), registration=registration).first()
    if row is None:
        return None
    if row.used_at is not None:
        if row.family_id is not None:
            end_family(row.family_id, now=now)
        elif row.token_id is not None:
            revoke_token_id(row.token_id, now=now)
        return None
    row.used_at = now
    row.save(update_fields=["used_at"])
    return row if row.expires_at > now else None


def _digest(code: str) -> bytes:
    return digest_for("authorization code", code)


Token = dict[str, Any]
"""The token response of oauthlib: ``access_token``, ``refresh_token``, ``expires_in``, ``scope``."""


def issue_first_tokens(
    token: Token,
    row: AuthorizationCode | PendingRequest,
    *,
    registration: Registration,
    now: datetime,
) -> None:
    """Store the tokens of a new sign-in. Only continuous access can be refreshed (contract 1.6)."""
    package = row.package
    if package is None:
        raise TypeError("the request was not approved")
    family = None
    of_package = Grant.unscoped.filter(package=package)
    is_continuous = not of_package.exclude(access_mode=Grant.AccessMode.CONTINUOUS).exists()
    if is_continuous and "refresh_token" in registration.grant_types:
        family = RefreshFamily.unscoped.create(
            family_id=new_id("fam_"),
            registration=registration,
            package=package,
            resource=row.resource,
            scope=str(token["scope"]),
            created_at=now,
        )
        stored = _store_refreshable(token, family, now=now)
    else:
        stored = _store_unrefreshable(token, package, resource=row.resource, now=now)
    if isinstance(row, AuthorizationCode):
        row.token, row.family = stored, family
        row.save(update_fields=["token", "family"])
    token.update(grant_reference(package.pk, now=now))
    grants = active_grants(package.pk, now=now)
    if len(grants) == 1:
        token["authorization_details"] = [authorization_detail(grants[0])]


def issue_collector_token(
    token: Token, row: PendingRequest, *, registration: Registration, now: datetime
) -> None:
    """Put the token of a new collector in place of the tokens, which were not stored.

    Raises ``ConnectionNotFound`` if a connection that the owner allowed has ended.
    """
    connection_ids = row.connection_ids or ()
    bearer = create_collector(collector_name(registration), connection_ids, now=now)
    token.clear()
    token.update(
        access_token=bearer,
        token_type="Bearer",  # noqa: S106 - no secret
        scope=COLLECT_SCOPE,
        connection_ids=list(connection_ids),
    )


def collector_name(registration: Registration) -> str:
    """Return the client's own name, as the list of collectors shows it."""
    name = "".join(char for char in registration.name if char.isprintable()).strip()
    return name or "Collector"


def rotate_tokens(token: Token, used: RefreshToken, *, now: datetime) -> None:
    """Store the next tokens of a family, and mark the refresh token and its siblings as used.

    Access tokens that came with them expire on their own, because requests may be using them.
    """
    family = used.family
    if used.replaced_at is None:
        RefreshToken.unscoped.filter(family=family, replaced_at=None).update(replaced_at=now)
    token["scope"] = family.scope
    _store_refreshable(token, family, now=now)
    token.update(grant_reference(family.package_id, now=now))


def derive_bearer(polling_code: str) -> str:
    """Derive the bearer token of a connect attempt, the same for each poll with its polling code."""
    digest = digest_for("agent connect bearer", polling_code)
    secret = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{ACCESS_PREFIX}{current_owner()}_{secret}"


def store_token_once(
    bearer: str, package: Package, *, resource: str, now: datetime, expires_at: datetime
) -> None:
    """Store a derived bearer token unless it is stored already. Call it with the attempt locked."""
    if not AccessToken.unscoped.filter(digest__in=bearer_digests(bearer)).exists():
        store_token(bearer, package=package, resource=resource, now=now, expires_at=expires_at)


def _store_refreshable(token: Token, family: RefreshFamily, *, now: datetime) -> AccessToken:
    return extend_family(
        family, access_token=token["access_token"], refresh_token=token["refresh_token"], now=now
    )


def _store_unrefreshable(
    token: Token, package: Package, *, resource: str, now: datetime
) -> AccessToken:
    del token["refresh_token"]
    token["expires_in"] = limits.UNREFRESHED_SECONDS
    return store_token(
        token["access_token"],
        package=package,
        resource=resource,
        now=now,
        expires_at=now + timedelta(seconds=limits.UNREFRESHED_SECONDS),
    )


CONTEXT = "oauth_rar_0_1"


def introspection_response(bearer: str, *, origin: str, now: datetime) -> dict[str, Any]:
    """Introspect a bearer token for another resource server (RFC 7662).

    A known but unusable token gives ``{"active": false}`` with a reason.
    """
    act_for(owner_of_bearer(bearer))
    rows = AccessToken.unscoped.select_related("package__client")
    token = rows.filter(digest__in=bearer_digests(bearer)).first()
    if token is None:
        return {"active": False}
    reason = _inactive_reason(token, now)
    if reason is not None:
        return {"active": False, "inactive_reason": reason, **_client(token)}
    common = {
        "active": True,
        "pdpp_token_kind": token.kind,
        "subject_id": token.owner_id,
        "iss": origin,
        "aud": origin + ("" if token.resource == "/v1" else token.resource),
        **_client(token),
    }
    if token.expires_at is not None:
        common["exp"] = int(token.expires_at.timestamp())
    return common if token.package is None else common | _rights(token, token.package, now)


def _inactive_reason(token: AccessToken, now: datetime) -> str | None:
    if token.revoked_at is not None:
        members = FamilyMember.unscoped.filter(token=token, family__revoked_at__isnull=False)
        return "refresh_family_revoked" if members.exists() else "token_revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "token_expired"
    if token.package is None:
        return None
    if token.package.revoked_at is not None:
        return "package_revoked" if token.kind == "mcp_package" else "grant_revoked"
    usable, _ = usable_until(token.package.pk, now=now)
    if usable:
        return None
    current = Grant.unscoped.filter(package=token.package, revoked_at=None, superseded_by=None)
    unexpired = current.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    if unexpired.filter(readable_until__lte=now).exists():
        return "grant_consumed"
    return "grant_expired" if current.exists() else "grant_revoked"


def _client(token: AccessToken) -> dict[str, Any]:
    return {} if token.package is None else {"client_id": token.package.client_id}


def _rights(token: AccessToken, package: Package, now: datetime) -> dict[str, Any]:
    grants = active_grants(package.pk, now=now)
    details = [authorization_detail(grant) for grant in grants]
    if token.kind == "mcp_package" or len(grants) != 1:
        package_members = {
            "package_id": package.pk,
            "client": {"client_id": package.client_id},
            "subject": {"id": token.owner_id},
        }
        return {
            "grant_package_id": package.pk,
            "package": package_members,
            "authorization_details": details,
        }
    [grant] = grants
    return {
        "grant_id": grant.grant_id,
        "authorization_details": details,
        "pdpp": {
            "context_kind": CONTEXT,
            "client_id": package.client_id,
            "grant_id": grant.grant_id,
            "subject_id": token.owner_id,
            "issued_at": grant.issued_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "source": details[0]["source"],
            "source_declaration": {"version": grant.declaration.version},
        },
    }
