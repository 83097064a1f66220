"""Build token responses (RFC 6749) and introspection responses (RFC 7662)."""

import base64
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from evidence import limits
from evidence.access.crypto import ACCESS_PREFIX, OWNER_PREFIX, bearer_digests, digest_for, owner_in
from evidence.access.grant_states import (
    active_grants,
    authorization_detail,
    grant_reference,
    usable_until,
)
from evidence.access.tokens import store_token
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.owners import act_for, current_owner
from owner.oauth import codes
from owner.oauth.codes import is_in_ended_family
from owner.oauth.models import AuthorizationCode, PendingRequest, RefreshFamily, Registration

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
    if codes.allows_refresh(package.pk) and "refresh_token" in registration.grant_types:
        family = codes.create_family(
            package,
            registration=registration,
            resource=row.resource,
            scope=str(token["scope"]),
            now=now,
        )
        stored = _store_refreshable(token, family, now=now)
    else:
        stored = _store_unrefreshable(token, package, resource=row.resource, now=now)
    if isinstance(row, AuthorizationCode):
        codes.record_code_outcome(row, token=stored, family=family)
    token.update(grant_reference(package.pk, now=now))
    grants = active_grants(package.pk, now=now)
    if len(grants) == 1:
        token["authorization_details"] = [authorization_detail(grants[0])]


def rotate_tokens(token: Token, session: codes.RefreshSession, *, now: datetime) -> None:
    """Store the next tokens of a family and use up its refresh token."""
    codes.mark_replaced(session, now=now)
    token["scope"] = session.family.scope
    _store_refreshable(token, session.family, now=now)
    token.update(grant_reference(session.family.package_id, now=now))


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
    return codes.extend_family(
        family,
        access_token=token["access_token"],
        refresh_token=token["refresh_token"],
        now=now,
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
    act_for(owner_in(bearer, ACCESS_PREFIX) or owner_in(bearer, OWNER_PREFIX))
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
