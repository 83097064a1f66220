"""From an answer of the owner to tokens, and from a refresh token to the next."""

import base64
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from evidence import limits
from evidence.access.crypto import ACCESS_PREFIX, bearer_digests, digest_for
from evidence.access.grant_states import as_detail, held_by, usable_grants, usable_until
from evidence.access.grants import keep_token
from evidence.access.oauth import codes
from evidence.access.oauth.codes import is_in_ended_family
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.oauth import AuthorizationCode, PendingRequest, RefreshFamily, Registration

Token = dict[str, Any]
"""The library's answer under way: ``access_token``, ``refresh_token``, ``expires_in``, ``scope``."""


def first_tokens(
    token: Token,
    row: AuthorizationCode | PendingRequest,
    *,
    registration: Registration,
    now: datetime,
) -> None:
    """The tokens of a fresh sign-in. Only continuous access can be refreshed (contract 1.6)."""
    package = row.package
    if package is None:
        raise TypeError("nothing was allowed")
    family = None
    if codes.may_refresh(package.pk) and "refresh_token" in registration.grant_types:
        family = codes.found_family(
            package,
            registration=registration,
            resource=row.resource,
            scope=str(token["scope"]),
            now=now,
        )
        kept = _extended(token, family, now=now)
    else:
        kept = _unrefreshed(token, package, resource=row.resource, now=now)
    if isinstance(row, AuthorizationCode):
        codes.note_outcome(row, token=kept, family=family)
    token.update(held_by(package.pk, now=now))
    grants = usable_grants(package.pk, now=now)
    if len(grants) == 1:
        token["authorization_details"] = [as_detail(grants[0])]


def next_tokens(token: Token, standing: codes.Standing, *, now: datetime) -> None:
    """The next link of a family, in place of the one that was presented."""
    codes.replace(standing, now=now)
    token["scope"] = standing.family.scope
    _extended(token, standing.family, now=now)
    token.update(held_by(standing.family.package_id, now=now))


def bearer_of(polling_code: str) -> str:
    """The bearer of an attempt, which whoever holds the polling code gets as often as they ask."""
    digest = digest_for("agent connect bearer", polling_code)
    return ACCESS_PREFIX + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def keep_once(
    bearer: str, package: Package, *, resource: str, now: datetime, expires_at: datetime
) -> None:
    """The row of a bearer that may have been handed out before. Call it with the attempt held."""
    if not AccessToken.unscoped.filter(digest__in=bearer_digests(bearer)).exists():
        keep_token(bearer, package=package, resource=resource, now=now, expires_at=expires_at)


def _extended(token: Token, family: RefreshFamily, *, now: datetime) -> AccessToken:
    return codes.extend(
        family,
        access_token=token["access_token"],
        refresh_token=token["refresh_token"],
        now=now,
    )


def _unrefreshed(token: Token, package: Package, *, resource: str, now: datetime) -> AccessToken:
    del token["refresh_token"]
    token["expires_in"] = limits.UNREFRESHED_SECONDS
    return keep_token(
        token["access_token"],
        package=package,
        resource=resource,
        now=now,
        expires_at=now + timedelta(seconds=limits.UNREFRESHED_SECONDS),
    )


CONTEXT = "oauth_rar_0_1"


def introspected(bearer: str, *, origin: str, now: datetime) -> dict[str, Any]:
    """``{"active": false}`` with the reason where the bearer is known but no good."""
    rows = AccessToken.unscoped.select_related("package__client")
    token = rows.filter(digest__in=bearer_digests(bearer)).first()
    if token is None:
        return {"active": False}
    reason = _why_not(token, now)
    if reason is not None:
        return {"active": False, "inactive_reason": reason, **_bound(token)}
    common = {
        "active": True,
        "pdpp_token_kind": token.kind,
        "subject_id": token.owner_id,
        "iss": origin,
        "aud": origin + ("" if token.resource == "/v1" else token.resource),
        **_bound(token),
    }
    if token.expires_at is not None:
        common["exp"] = int(token.expires_at.timestamp())
    return common if token.package is None else common | _rights(token, token.package, now)


def _why_not(token: AccessToken, now: datetime) -> str | None:
    if token.revoked_at is not None:
        return "refresh_family_revoked" if is_in_ended_family(token) else "token_revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "token_expired"
    if token.package is None:
        return None
    if token.package.revoked_at is not None:
        return "package_revoked" if token.kind == "mcp_package" else "grant_revoked"
    usable, _ = usable_until(token.package.pk, now=now)
    if usable:
        return None
    standing = Grant.unscoped.filter(package=token.package, revoked_at=None, superseded_by=None)
    unexpired = standing.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    if unexpired.filter(readable_until__lte=now).exists():
        return "grant_consumed"
    return "grant_expired" if standing.exists() else "grant_revoked"


def _bound(token: AccessToken) -> dict[str, Any]:
    return {} if token.package is None else {"client_id": token.package.client_id}


def _rights(token: AccessToken, package: Package, now: datetime) -> dict[str, Any]:
    grants = usable_grants(package.pk, now=now)
    details = [as_detail(each) for each in grants]
    if token.kind == "mcp_package" or len(grants) != 1:
        held = {
            "package_id": package.pk,
            "client": {"client_id": package.client_id},
            "subject": {"id": token.owner_id},
        }
        return {
            "grant_package_id": package.pk,
            "package": held,
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
