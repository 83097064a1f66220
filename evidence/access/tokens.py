"""Bearer and resource -> ``Scope``, in one statement.

The answer is read afresh for every request, so a revocation or an expiry holds on the very next
one. What a grant says never changes, so its parsed terms are kept by grant id.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from evidence.access.crypto import LONGEST_BEARER, bearer_digests
from evidence.access.grant_terms import parsed_terms
from evidence.access.owner_scope import everything
from evidence.access.scope import ConnectionFacts, GrantTerms, Scope, SourceFacts, TokenKind, Used
from evidence.access.sql import Fragment, fetched_by_one_plan
from evidence.errors import (
    AuthenticationRequired,
    GrantConsumed,
    GrantExpired,
    GrantPaused,
    GrantRevoked,
    Refusal,
    WrongTokenKind,
)

RIGHTS = """
SELECT t.token_id, t.kind, t.resource, t.owner_id, t.package_id, t.expires_at, t.revoked_at,
    p.client_id, p.revoked_at,
    (SELECT jsonb_agg(jsonb_build_array(g.grant_id, g.source_id, g.streams::text,
            g.revoked_at IS NOT NULL, g.superseded_by_id IS NOT NULL,
            g.expires_at IS NOT NULL AND g.expires_at <= %s, g.paused_at IS NOT NULL,
            (SELECT jsonb_agg(jsonb_build_array(q.measure, q.period, q.most, q.used,
                    extract(epoch FROM q.since)))
                FROM evidence_quota q WHERE q.grant_id = g.grant_id),
            g.access_mode = 'single_use',
            g.readable_until IS NOT NULL AND g.readable_until <= %s) ORDER BY g.issued_at, g.grant_id)::text
        FROM evidence_grant g WHERE g.package_id = t.package_id),
    (SELECT jsonb_agg(jsonb_build_array(c.connection_id, c.display_name, c.languages, c.source_id,
            c.identities, c.indexed_languages, c.indexed_analyser)
            ORDER BY c.display_name, c.connection_id)::text
        FROM evidence_connection c WHERE c.owner_id = t.owner_id AND c.status <> 'revoked'),
    (SELECT jsonb_agg(jsonb_build_array(s.id, s.kind, s.source_id, s.connector_key,
            s.display_name, s.current_declaration_id) ORDER BY s.connector_key)::text
        FROM evidence_source s
        WHERE s.owner_id = t.owner_id AND s.current_declaration_id IS NOT NULL)
"""
LOOK_UP = f"""{RIGHTS}
FROM evidence_accesstoken t
LEFT JOIN evidence_package p ON p.package_id = t.package_id
WHERE t.digest = %s
"""
STANDING = f"""{RIGHTS}
FROM (SELECT package_id AS token_id, 'client' AS kind, '' AS resource, owner_id, package_id,
        NULL::timestamptz AS expires_at, NULL::timestamptz AS revoked_at
    FROM evidence_package WHERE package_id = %s) t
JOIN evidence_package p ON p.package_id = t.package_id
"""


def authenticate(bearer: str, *, resource: str, now: datetime) -> Scope:
    """The rights behind ``bearer`` at ``resource`` (contract 1.1 and 1.2).

    Raises ``AuthenticationRequired`` for an unknown, expired or revoked bearer or one bound to
    another resource, ``WrongTokenKind`` for an owner's bearer away from ``/v1``, ``GrantRevoked``
    ``GrantConsumed`` and ``GrantExpired`` when nothing behind it can be used any more, and ``GrantPaused`` when the owner
    has paused what could.
    """
    found = _found(bearer, now)
    if found is None:
        raise AuthenticationRequired(message="The bearer token is not known.")
    try:
        _check(found, resource, now)
        return _scope(found, token_id=found.token_id)
    except Refusal as refusal:
        if found.client_id is not None:
            refusal.caller = (found.owner_id, found.client_id, found.token_id)
        raise


def standing(package_id: str, *, on_behalf_of: str, now: datetime) -> Scope:
    """The rights of a package where the server itself acts for its client, without a bearer.

    ``on_behalf_of`` stands in the ledger where a token would. Raises ``GrantRevoked``,
    ``GrantExpired`` and ``GrantPaused`` as ``authenticate`` does.
    """
    found = _fetched(STANDING, (now, now, package_id))
    if found is None or found.package_revoked_at is not None:
        raise GrantRevoked
    return _scope(found, token_id=on_behalf_of)


def _scope(found: "Found", *, token_id: str) -> Scope:
    is_owner = found.kind == TokenKind.OWNER
    grants, paused = (None, ()) if is_owner else _usable(found.grants)
    sources = {row[0]: SourceFacts(*row) for row in found.sources}
    connections = {
        row[0]: ConnectionFacts(
            row[0], row[1], tuple(row[2]), row[3], tuple(row[4]), (tuple(row[5]), row[6])
        )
        for row in found.connections
        if row[3] in sources
    }
    return Scope(
        kind=TokenKind(found.kind),
        token_id=token_id,
        owner_id=found.owner_id,
        client_id=found.client_id,
        package_id=found.package_id,
        expires_at=found.expires_at,
        grants=everything(sources, connections) if grants is None else grants,
        sources=sources,
        connections=connections,
        paused=paused,
    )


class Found(NamedTuple):
    """The row of a token and all that hangs on it."""

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


def _check(found: Found, resource: str, now: datetime) -> None:
    """The reasons to refuse a known token, one a line."""
    if found.revoked_at is not None:
        raise AuthenticationRequired(message="The bearer token has been revoked.")
    if found.expires_at is not None and found.expires_at <= now:
        raise AuthenticationRequired(message="The bearer token has expired.")
    if found.resource != resource and found.kind == TokenKind.OWNER:
        raise WrongTokenKind(
            message="Owner tokens do not work here; connect the agent with a grant of its own."
        )
    if found.resource != resource:
        raise AuthenticationRequired(
            message=f"The bearer token was issued for {found.resource}, not for {resource}."
        )
    if found.package_revoked_at is not None:
        raise GrantRevoked


def _found(bearer: str, now: datetime) -> Found | None:
    if len(bearer) > LONGEST_BEARER:
        return None
    found = (_fetched(LOOK_UP, (now, now, digest)) for digest in bearer_digests(bearer))
    return next((each for each in found if each is not None), None)


def _fetched(statement: str, values: tuple[object, ...]) -> Found | None:
    rows = fetched_by_one_plan(Fragment(statement, values))
    if not rows:
        return None
    *facts, grants, connections, sources = rows[0]
    return Found(*facts, *(orjson.loads(each or "[]") for each in (grants, connections, sources)))


Grants = tuple[GrantTerms, ...]


def _usable(rows: Sequence[Sequence[Any]]) -> tuple[Grants, Grants]:
    """The grants that hold now, and those that are paused beside them; one that was replaced is
    neither usable nor a reason to refuse."""
    standing = [row for row in rows if not row[4]]
    unexpired = [row for row in standing if not row[3] and not row[5]]
    alive = [row for row in unexpired if not row[9]]
    if not alive:
        if unexpired:
            raise GrantConsumed
        if any(not row[3] for row in standing):
            raise GrantExpired
        raise GrantRevoked
    reading = [row for row in alive if not row[6]]
    if not reading:
        raise GrantPaused
    return _terms(reading), _terms(row for row in alive if row[6])


def _terms(rows: Iterable[Sequence[Any]]) -> Grants:
    return tuple(
        GrantTerms(row[0], row[1], parsed_terms(row[0], row[2]), _limits(row[7]), row[8])
        for row in rows
    )


def _limits(rows: Sequence[Sequence[Any]] | None) -> tuple[Used, ...]:
    return tuple(
        Used(measure, period, most, used, datetime.fromtimestamp(since, UTC))
        for measure, period, most, used, since in rows or ()
    )
