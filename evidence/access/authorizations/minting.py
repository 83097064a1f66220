"""From an answer of the owner to tokens, and from a refresh token to the next."""

import base64
from datetime import datetime, timedelta
from typing import Any

from evidence import limits
from evidence.access.authorizations import codes, families
from evidence.access.issuing import keep_token
from evidence.access.rights import as_detail, held_by, usable_grants
from evidence.access.secrets import ACCESS_PREFIX, bearer_digests, digest_for
from evidence.models.authorizations import AuthorizationCode, PendingRequest, RefreshFamily
from evidence.models.grants import AccessToken, Package
from evidence.models.registrations import Registration

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
    if families.may_refresh(package.pk) and "refresh_token" in registration.grant_types:
        family = families.found_family(
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


def next_tokens(token: Token, standing: families.Standing, *, now: datetime) -> None:
    """The next link of a family, in place of the one that was presented."""
    families.replace(standing, now=now)
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
    return families.extend(
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
