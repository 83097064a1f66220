"""Build scopes for the owner's own session and for grant previews, and check record keys.

Callers make sure that the owner is signed in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import orjson

from evidence.access.gate import Gate
from evidence.access.grant_terms import parse_draft_terms, parse_terms, serialize_terms
from evidence.access.scope import (
    ConnectionFacts,
    Everything,
    GrantTerms,
    Scope,
    SourceFacts,
    StreamTerms,
    TokenKind,
)
from evidence.access.sql import SQL, fetch_all
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.sources import Source, load_declarations

OWNER_SESSION = "signed-in"
"""Token id of the owner's signed-in session, which has no bearer token."""
GRANT_PREVIEW = "not-issued"
"""Token id of a preview."""


def owner_scope(owner_id: str) -> Scope:
    """Return the scope of the owner: every declared stream on every connection not revoked."""
    sources = {
        row.pk: SourceFacts(
            source_pk=row.pk,
            kind=row.kind,
            source_id=row.source_id,
            connector_key=row.connector_key,
            display_name=row.display_name,
            declaration_pk=row.current_declaration_id,
        )
        for row in Source.unscoped.filter(owner_id=owner_id).order_by("connector_key")
        if row.current_declaration_id is not None
    }
    connections = {
        row.connection_id: ConnectionFacts(
            connection_id=row.connection_id,
            display_name=row.display_name,
            languages=tuple(row.languages),
            source_pk=row.source_id,
            identities=tuple(row.identities),
            index_edition=(tuple(row.indexed_languages), row.indexed_analyser),
            is_demo=row.demo,
        )
        for row in Connection.unscoped.filter(owner_id=owner_id)
        .exclude(status=Connection.Status.REVOKED)
        .order_by("display_name", "connection_id")
        if row.source_id in sources
    }
    return Scope(
        kind=TokenKind.OWNER,
        token_id=OWNER_SESSION,
        owner_id=owner_id,
        client_id=None,
        package_id=None,
        expires_at=None,
        grants=all_declared_streams(sources, connections),
        sources=sources,
        connections=connections,
    )


def all_declared_streams(
    sources: Mapping[int, SourceFacts], connections: Mapping[str, ConnectionFacts]
) -> tuple[GrantTerms, ...]:
    """Return unrestricted terms for each declared stream on each connection of its source."""
    documents = load_declarations(facts.declaration_pk for facts in sources.values())
    grants = []
    for facts in sources.values():
        connection_ids = frozenset(
            connection.connection_id
            for connection in connections.values()
            if connection.source_pk == facts.source_pk
        )
        streams = documents[facts.declaration_pk].declaration.streams
        terms = tuple(_unrestricted_terms(name, connection_ids) for name in streams)
        grants.append(GrantTerms(None, facts.source_pk, terms))
    return tuple(grants)


def _unrestricted_terms(stream: str, connection_ids: frozenset[str]) -> StreamTerms:
    return StreamTerms(
        name=stream,
        connection_ids=connection_ids,
        fields=Everything(),
        filters=Everything(),
        views=Everything(),
        relations=Everything(),
        records=Everything(),
        time=None,
    )


def preview_scope(grants: Iterable[tuple[int, Sequence[StreamTerms]]], *, owner_id: str) -> Scope:
    """Return the scope that a package would have, with one grant for each (source, terms)."""
    return _client_scope(
        owner_id,
        *(
            GrantTerms(f"{GRANT_PREVIEW}-{number}", source_pk, _as_stored(terms))
            for number, (source_pk, terms) in enumerate(grants)
        ),
    )


def grant_scope(grant: Grant, *, owner_id: str) -> Scope:
    """Return the scope of one issued grant of the owner, as its token has it."""
    terms = parse_terms(orjson.dumps(grant.streams).decode())
    return _client_scope(owner_id, GrantTerms(grant.grant_id, grant.source_id, terms))


def _client_scope(owner_id: str, *grants: GrantTerms) -> Scope:
    return replace(
        owner_scope(owner_id), kind=TokenKind.CLIENT, token_id=GRANT_PREVIEW, grants=grants
    )


def _as_stored(terms: Sequence[StreamTerms]) -> tuple[StreamTerms, ...]:
    """Serialize and parse terms, so that a preview applies exactly what a grant would store."""
    return parse_draft_terms(orjson.dumps(serialize_terms(terms, time_fields={})))


def existing_keys(
    owner_id: str, *, stream: str, connection_ids: Iterable[str], keys: Sequence[str]
) -> frozenset[str]:
    """Return those of ``keys`` that name a record in any of the connections. One query for each."""
    gate = Gate(owner_scope(owner_id))
    condition = SQL(" AND r.record_key = ANY(%s)", (list(keys),))
    streams = (gate.stream(stream, connection_id=id_) for id_ in connection_ids)
    selects = (visible.select(SQL("r.record_key"), [condition]) for visible in streams)
    return frozenset(key for select in selects for (key,) in fetch_all(select))
