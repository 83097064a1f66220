"""What a resource server elsewhere may learn of a bearer (RFC 7662, contract 1.3)."""

from datetime import datetime
from typing import Any

from django.db.models import Q

from evidence.access.authorizations.families import is_in_ended_family
from evidence.access.held import usable_until
from evidence.access.rights import as_detail, usable_grants
from evidence.access.secrets import bearer_digests
from evidence.models.grants import AccessToken, Grant, Package

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
