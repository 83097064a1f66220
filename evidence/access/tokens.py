"""Issue, revoke and authenticate bearer tokens.

Every request reads the rights behind its token again, so a revocation or an expiry applies to the
next request. Parsed terms of grants are cached.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson
from django.db.models import Q

from evidence import limits
from evidence.access.crypto import (
    ACCESS_PREFIX,
    COLLECTOR_PREFIX,
    MAX_BEARER_CHARS,
    OWNER_PREFIX,
    bearer_digest,
    bearer_digests,
    new_id,
    new_secret,
    owner_of_bearer,
)
from evidence.access.grant_terms import parse_terms
from evidence.access.grants import lock_packages
from evidence.access.owner_scope import all_declared_streams
from evidence.access.scope import (
    ConnectionFacts,
    GrantTerms,
    QuotaUsage,
    Scope,
    SourceFacts,
    TokenKind,
)
from evidence.access.sql import SQL, fetch_prepared
from evidence.errors import (
    ApiException,
    AuthenticationRequired,
    ConnectionNotFound,
    GrantConsumed,
    GrantExpired,
    GrantPaused,
    GrantRevoked,
    InvalidRequest,
    WrongTokenKind,
)
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Collector, Grant, Package
from evidence.models.owners import acting_for, current_owner

SELECT_RIGHTS = """
SELECT t.token_id, t.kind, t.resource, t.owner_id, t.package_id, t.expires_at, t.revoked_at,
    p.client_id, p.revoked_at,
    (SELECT jsonb_agg(jsonb_build_array(g.grant_id, g.source_id, g.streams::text,
            g.revoked_at IS NOT NULL, g.superseded_by_id IS NOT NULL,
            g.expires_at IS NOT NULL AND g.expires_at <= %s, g.paused_at IS NOT NULL,
            (SELECT jsonb_agg(jsonb_build_array(q.measure, q.period, q.most, q.used,
                    extract(epoch FROM q.since)))
                FROM evidence_quota q
                WHERE q.owner_id = %s AND q.grant_id = coalesce(g.extends_id, g.grant_id)),
            g.access_mode = 'single_use',
            g.readable_until IS NOT NULL AND g.readable_until <= %s, g.extends_id) ORDER BY g.issued_at, g.grant_id)::text
        FROM evidence_grant g
        WHERE g.owner_id = %s AND g.package_id = t.package_id AND (g.extends_id IS NULL OR g.expires_at > %s)),
    (SELECT jsonb_agg(jsonb_build_array(c.connection_id, c.display_name, c.languages, c.source_id,
            c.identities, c.indexed_languages, c.indexed_analyser)
            ORDER BY c.display_name, c.connection_id)::text
        FROM evidence_connection c WHERE c.owner_id = %s AND c.status <> 'revoked'{own}),
    (SELECT jsonb_agg(jsonb_build_array(s.id, s.kind, s.source_id, s.connector_key,
            s.display_name, s.current_declaration_id) ORDER BY s.connector_key)::text
        FROM evidence_source s
        WHERE s.owner_id = %s AND s.current_declaration_id IS NOT NULL)
"""
FIND_BY_DIGEST = f"""
-- Find a bearer token with its grants, quotas, connections and sources.
-- Parameters: see _fetch_row; the key is the token's digest. One query per request.
{SELECT_RIGHTS.format(own="")}
FROM evidence_accesstoken t
LEFT JOIN evidence_package p ON p.owner_id = t.owner_id AND p.package_id = t.package_id
WHERE t.owner_id = %s AND t.digest = %s
"""
FIND_BY_PACKAGE = f"""
-- Find the same rights of a package, without a token. Parameters: see _fetch_row; the key is the package id.
{SELECT_RIGHTS.format(own="")}
FROM (SELECT package_id AS token_id, 'client' AS kind, '' AS resource, owner_id, package_id,
        NULL::timestamptz AS expires_at, NULL::timestamptz AS revoked_at
    FROM evidence_package WHERE owner_id = %s AND package_id = %s) t
JOIN evidence_package p ON p.owner_id = t.owner_id AND p.package_id = t.package_id
"""

FIND_COLLECTOR = f"""
-- Find the connections that a collector may write to. Parameters: see _fetch_row; the key is the token's digest.
{SELECT_RIGHTS.format(own=" AND c.connection_id = ANY(t.connection_ids)")}
FROM (SELECT collector_id AS token_id, 'collector' AS kind, '/v1' AS resource, owner_id, NULL AS package_id,
        NULL::timestamptz AS expires_at, revoked_at, connection_ids
    FROM evidence_collector WHERE owner_id = %s AND digest = %s) t
LEFT JOIN evidence_package p ON p.owner_id = t.owner_id AND p.package_id = t.package_id
"""

Grants = tuple[GrantTerms, ...]


class TokenRow(NamedTuple):
    """A row of ``FIND_BY_DIGEST``, ``FIND_BY_PACKAGE`` or ``FIND_COLLECTOR``."""

    token_id: str
    kind: str
    resource: str
    owner_id: str
    package_id: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    client_id: str | None
    package_revoked_at: datetime | None
    grants: Sequence[Sequence[Any]]
    connections: Sequence[Sequence[Any]]
    sources: Sequence[Sequence[Any]]


def create_token(
    package: Package,
    *,
    resource: str,
    now: datetime,
    expires_at: datetime | None = None,
    approval: str | None = None,
) -> str:
    """Create a bearer token for ``package`` at ``resource``: ``/v1``, ``/mcp`` or ``/mcp/events``.

    An ``approval`` works only once per resource.
    """
    bearer = new_secret(ACCESS_PREFIX)
    store_token(
        bearer,
        package=package,
        resource=resource,
        now=now,
        expires_at=expires_at,
        approval=approval,
    )
    return bearer


def token_exists(approval: str, *, package_id: str) -> bool:
    """Return whether tokens were already created under this approval.

    Locks the package until the transaction ends, so that a second request waits for the first.
    """
    lock_packages(pk=package_id)
    return AccessToken.unscoped.filter(approval=approval).exists()


def create_owner_token(*, owner_id: str, now: datetime, expires_at: datetime | None = None) -> str:
    """Create a bearer token for the owner's own programs, valid at ``/v1`` only."""
    bearer = new_secret(OWNER_PREFIX)
    _store(
        bearer,
        kind=TokenKind.OWNER,
        resource="/v1",
        owner_id=owner_id,
        now=now,
        expires_at=expires_at,
    )
    return bearer


def store_token(
    bearer: str,
    *,
    package: Package,
    resource: str,
    now: datetime,
    expires_at: datetime | None,
    approval: str | None = None,
) -> AccessToken:
    """Store the digest of a bearer token of 256 random bits that the caller has generated."""
    has_several = Grant.unscoped.filter(package=package, extends=None).count() > 1
    return _store(
        bearer,
        kind=TokenKind.PACKAGE if has_several else TokenKind.CLIENT,
        resource=resource,
        owner_id=package.owner_id,
        package=package,
        now=now,
        expires_at=expires_at,
        approval=approval,
    )


def _store(bearer: str, *, now: datetime, **columns: Any) -> AccessToken:
    return AccessToken.unscoped.create(
        token_id=new_id("tok_"), digest=bearer_digest(bearer), created_at=now, **columns
    )


USE_SECONDS = 60
"""Resolution of the last use of a collector, so that not every request writes it."""


def create_collector(name: str, connection_ids: Iterable[str], *, now: datetime) -> str:
    """Create a bearer token for a program that writes to these connections, valid at ``/v1`` only.

    It ends when the owner revokes it. Raises ``InvalidRequest`` and ``ConnectionNotFound``.
    """
    label, ids = name.strip(), list(dict.fromkeys(connection_ids))
    if not 1 <= len(label) <= limits.LABEL_MAX_CHARS or not label.isprintable():
        raise InvalidRequest(
            message=f"A name takes 1 to {limits.LABEL_MAX_CHARS} printable characters.",
            param="name",
        )
    known = Connection.unscoped.exclude(status=Connection.Status.REVOKED).filter(pk__in=ids)
    if not ids or known.count() < len(ids):
        raise ConnectionNotFound(message="Name connections that exist.", param="connection_id")
    bearer = new_secret(COLLECTOR_PREFIX)
    Collector.unscoped.create(
        collector_id=new_id("col_"),
        digest=bearer_digest(bearer),
        name=label,
        connection_ids=ids,
        created_at=now,
    )
    return bearer


def list_collectors() -> Sequence[Collector]:
    """Return the owner's collectors that are not revoked, by name."""
    return list(Collector.unscoped.filter(revoked_at=None).order_by("name", "pk"))


def revoke_collector(collector_id: str, *, now: datetime) -> bool:
    """Revoke a collector's token. Returns False if it is not valid."""
    rows = Collector.unscoped.filter(pk=collector_id, revoked_at=None)
    return bool(rows.update(revoked_at=now))


def note_use(collector_id: str, *, now: datetime) -> None:
    """Store when a collector was last used, to the minute."""
    before = Q(used_at=None) | Q(used_at__lt=now - timedelta(seconds=USE_SECONDS))
    Collector.unscoped.filter(before, pk=collector_id).update(used_at=now)


def revoke_token_id(token_id: str, *, now: datetime) -> bool:
    """Revoke a bearer token by its id; its grants stay. Returns False if it is not valid."""
    tokens = AccessToken.unscoped.filter(token_id=token_id, revoked_at=None)
    return bool(tokens.update(revoked_at=now))


def authenticate(bearer: str, *, resource: str, now: datetime) -> Scope:
    """Return the scope behind ``bearer`` at ``resource`` (contract 1.1 and 1.2). One query.

    Raises ``AuthenticationRequired`` if the token is unknown, expired, revoked or bound to another
    resource; ``WrongTokenKind`` for an owner token away from ``/v1``; ``GrantRevoked``,
    ``GrantConsumed`` or ``GrantExpired`` if no grant is usable; ``GrantPaused`` if all usable grants
    are paused.
    """
    row = _find_token(bearer, now)
    if row is None:
        raise AuthenticationRequired(message="The bearer token is not known.")
    try:
        _check(row, resource, now)
        with acting_for(row.owner_id):
            return _scope(row, token_id=row.token_id)
    except ApiException as refusal:
        if row.client_id is not None:
            refusal.caller = (row.owner_id, row.client_id, row.token_id)
        raise


def package_scope(package_id: str, *, on_behalf_of: str, now: datetime) -> Scope:
    """Return the scope of a package when the server acts for its client without a bearer token.

    The ledger shows ``on_behalf_of`` in place of a token id. Raises ``GrantRevoked``,
    ``GrantConsumed``, ``GrantExpired`` or ``GrantPaused`` like ``authenticate``.
    """
    row = _fetch_row(FIND_BY_PACKAGE, current_owner(), package_id, now)
    if row is None or row.package_revoked_at is not None:
        raise GrantRevoked
    return _scope(row, token_id=on_behalf_of)


def _scope(row: TokenRow, *, token_id: str) -> Scope:
    grants: Grants | None = None
    paused: Grants = ()
    sources = {source[0]: SourceFacts(*source) for source in row.sources}
    if row.kind == TokenKind.COLLECTOR:
        grants = ()
        own = {columns[3] for columns in row.connections}
        sources = {pk: facts for pk, facts in sources.items() if pk in own}
    elif row.kind != TokenKind.OWNER:
        grants, paused = _active_and_paused(row.grants)
    connections = {
        columns[0]: ConnectionFacts(
            columns[0],
            columns[1],
            tuple(columns[2]),
            columns[3],
            tuple(columns[4]),
            (tuple(columns[5]), columns[6]),
        )
        for columns in row.connections
        if columns[3] in sources
    }
    return Scope(
        kind=TokenKind(row.kind),
        token_id=token_id,
        owner_id=row.owner_id,
        client_id=row.client_id,
        package_id=row.package_id,
        expires_at=row.expires_at,
        grants=all_declared_streams(sources, connections) if grants is None else grants,
        sources=sources,
        connections=connections,
        paused=paused,
    )


def _check(row: TokenRow, resource: str, now: datetime) -> None:
    if row.revoked_at is not None:
        raise AuthenticationRequired(message="The bearer token has been revoked.")
    if row.expires_at is not None and row.expires_at <= now:
        raise AuthenticationRequired(message="The bearer token has expired.")
    if row.resource != resource and row.kind in (TokenKind.OWNER, TokenKind.COLLECTOR):
        raise WrongTokenKind(
            message="Tokens of owners and collectors do not work here; connect the agent with a grant"
            " of its own."
        )
    if row.resource != resource:
        raise AuthenticationRequired(
            message=f"The bearer token was issued for {row.resource}, not for {resource}."
        )
    if row.package_revoked_at is not None:
        raise GrantRevoked


def _find_token(bearer: str, now: datetime) -> TokenRow | None:
    if len(bearer) > MAX_BEARER_CHARS:
        return None
    statement = FIND_COLLECTOR if bearer.startswith(COLLECTOR_PREFIX) else FIND_BY_DIGEST
    owner_id = owner_of_bearer(bearer)
    rows = (_fetch_row(statement, owner_id, digest, now) for digest in bearer_digests(bearer))
    return next((row for row in rows if row is not None), None)


def _fetch_row(statement: str, owner_id: str | None, key: object, now: datetime) -> TokenRow | None:
    # Each part names the owner as a value, so that a cluster asks one node.
    values = (now, owner_id, now, owner_id, now, owner_id, owner_id, owner_id, key)
    rows = fetch_prepared(SQL(statement, values))
    if not rows:
        return None
    *columns, grants, connections, sources = rows[0]
    lists = (orjson.loads(text or "[]") for text in (grants, connections, sources))
    return TokenRow(*columns, *lists)


def _active_and_paused(rows: Sequence[Sequence[Any]]) -> tuple[Grants, Grants]:
    """Return the active and the paused grants, or raise if no grant is active.

    A superseded grant is neither usable nor a reason to refuse. A temporary grant is active only with
    the grant that it extends, and comes directly before it.
    """
    current = [row for row in rows if not row[4] and row[10] is None]
    unexpired = [row for row in current if not row[3] and not row[5]]
    usable = [row for row in unexpired if not row[9]]
    if not usable:
        if unexpired:
            raise GrantConsumed
        if any(not row[3] for row in current):
            raise GrantExpired
        raise GrantRevoked
    active = [row for row in usable if not row[6]]
    if not active:
        raise GrantPaused
    usable_extensions = [
        row for row in rows if row[10] is not None and not any((*row[3:7], row[9]))
    ]
    with_extensions = (
        row
        for grant in active
        for row in [*(ext for ext in usable_extensions if ext[10] == grant[0]), grant]
    )
    return _terms(with_extensions), _terms(row for row in usable if row[6])


def _terms(rows: Iterable[Sequence[Any]]) -> Grants:
    return tuple(
        GrantTerms(row[0], row[1], parse_terms(row[2]), _quotas(row[7]), row[8], row[10])
        for row in rows
    )


def _quotas(rows: Sequence[Sequence[Any]] | None) -> tuple[QuotaUsage, ...]:
    return tuple(
        QuotaUsage(measure, period, most, used, datetime.fromtimestamp(since, UTC))
        for measure, period, most, used, since in rows or ()
    )
