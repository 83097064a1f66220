"""Bearer and resource -> ``Scope``, in one statement.

The answer is read afresh for every request, so a revocation or an expiry holds on the very next
one. What a grant says never changes, so its parsed terms are kept by grant id.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from django.db import connection

from evidence.access.owning import everything
from evidence.access.scope import ConnectionFacts, GrantTerms, Scope, SourceFacts, TokenKind
from evidence.access.secrets import LONGEST_BEARER, bearer_digest
from evidence.access.terms import parsed_terms
from evidence.refusals import (
    AuthenticationRequired,
    GrantExpired,
    GrantRevoked,
    WrongTokenKind,
)

LOOK_UP = """
SELECT t.token_id, t.kind, t.resource, t.owner_id, t.package_id, t.expires_at, t.revoked_at,
    p.client_id, p.revoked_at,
    (SELECT jsonb_agg(jsonb_build_array(g.grant_id, g.source_id, g.streams::text,
            g.revoked_at IS NOT NULL, g.superseded_by_id IS NOT NULL,
            g.expires_at IS NOT NULL AND g.expires_at <= %s) ORDER BY g.issued_at, g.grant_id)
        FROM evidence_grant g WHERE g.package_id = t.package_id),
    (SELECT jsonb_agg(jsonb_build_array(c.connection_id, c.display_name, c.languages, c.source_id)
            ORDER BY c.display_name, c.connection_id)
        FROM evidence_connection c WHERE c.owner_id = t.owner_id AND c.status <> 'revoked'),
    (SELECT jsonb_agg(jsonb_build_array(s.id, s.kind, s.source_id, s.connector_key,
            s.display_name, s.current_declaration_id) ORDER BY s.connector_key)
        FROM evidence_source s
        WHERE s.owner_id = t.owner_id AND s.current_declaration_id IS NOT NULL)
FROM evidence_accesstoken t
LEFT JOIN evidence_package p ON p.package_id = t.package_id
WHERE t.digest = %s
"""


def authenticate(bearer: str, *, resource: str, now: datetime) -> Scope:
    """The rights behind ``bearer`` at ``resource`` (contract 1.1 and 1.2).

    Raises ``AuthenticationRequired`` for an unknown, expired or revoked bearer or one bound to
    another resource, ``WrongTokenKind`` for an owner's bearer away from ``/v1``, ``GrantRevoked``
    and ``GrantExpired`` when nothing behind it can be used any more.
    """
    row = _row(bearer, now)
    if row is None:
        raise AuthenticationRequired(message="The bearer token is not known.")
    (token_id, kind, bound_to, owner_id, package_id, expires_at, revoked_at,
     client_id, package_revoked_at, grants, connections, sources) = row  # fmt: skip
    if revoked_at is not None:
        raise AuthenticationRequired(message="The bearer token has been revoked.")
    if expires_at is not None and expires_at <= now:
        raise AuthenticationRequired(message="The bearer token has expired.")
    if kind == TokenKind.OWNER and resource != bound_to:
        raise WrongTokenKind(
            message="Owner tokens do not work here; connect the agent with a grant of its own."
        )
    if resource != bound_to:
        raise AuthenticationRequired(
            message=f"The bearer token was issued for {bound_to}, not for {resource}."
        )
    if package_revoked_at is not None:
        raise GrantRevoked
    facts = {row[0]: SourceFacts(*row) for row in orjson.loads(sources or "[]")}
    known = {
        row[0]: ConnectionFacts(row[0], row[1], tuple(row[2]), row[3])
        for row in orjson.loads(connections or "[]")
        if row[3] in facts
    }
    held = (
        everything(facts, known)
        if kind == TokenKind.OWNER
        else _usable(orjson.loads(grants or "[]"))
    )
    return Scope(
        kind=TokenKind(kind),
        token_id=token_id,
        owner_id=owner_id,
        client_id=client_id,
        package_id=package_id,
        expires_at=expires_at,
        grants=held,
        sources=facts,
        connections=known,
    )


def _row(bearer: str, now: datetime) -> tuple[Any, ...] | None:
    if len(bearer) > LONGEST_BEARER:
        return None
    with connection.cursor() as cursor:
        cursor.execute(LOOK_UP, [now, bearer_digest(bearer)])
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row


def _usable(rows: Sequence[Sequence[Any]]) -> tuple[GrantTerms, ...]:
    """The grants that hold now; one that was replaced is neither usable nor a reason to refuse."""
    standing = [row for row in rows if not row[4]]
    alive = [row for row in standing if not row[3] and not row[5]]
    if not alive:
        if any(not row[3] for row in standing):
            raise GrantExpired
        raise GrantRevoked
    return tuple(
        GrantTerms(grant_id, source_pk, parsed_terms(grant_id, streams))
        for grant_id, source_pk, streams, *_ in alive
    )
