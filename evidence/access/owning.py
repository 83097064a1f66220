"""The owner's own view: every declared stream through every connection that is not revoked."""

from collections.abc import Mapping

from evidence.access.scope import (
    ConnectionFacts,
    Everything,
    GrantTerms,
    Scope,
    SourceFacts,
    StreamTerms,
    TokenKind,
)
from evidence.analyser import VERSION
from evidence.models.connections import Connection
from evidence.models.declared import declared
from evidence.models.sources import Source

SIGNED_IN = "signed-in"
"""Stands for the token where the owner's signed-in session asks, not a bearer."""


def owner_scope(owner_id: str) -> Scope:
    """What the owner may see of their own. The caller has made sure that the owner asks."""
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
            reindexing=(row.indexed_languages, row.indexed_analyser) != (row.languages, VERSION),
        )
        for row in Connection.unscoped.filter(owner_id=owner_id)
        .exclude(status=Connection.Status.REVOKED)
        .order_by("display_name", "connection_id")
        if row.source_id in sources
    }
    return Scope(
        kind=TokenKind.OWNER,
        token_id=SIGNED_IN,
        owner_id=owner_id,
        client_id=None,
        package_id=None,
        expires_at=None,
        grants=everything(sources, connections),
        sources=sources,
        connections=connections,
    )


def everything(
    sources: Mapping[int, SourceFacts], connections: Mapping[str, ConnectionFacts]
) -> tuple[GrantTerms, ...]:
    """Each stream that is declared now, on each connection of its source."""
    documents = declared(facts.declaration_pk for facts in sources.values())
    held = []
    for facts in sources.values():
        ids = frozenset(
            each.connection_id for each in connections.values() if each.source_pk == facts.source_pk
        )
        streams = documents[facts.declaration_pk].declaration.streams
        held.append(
            GrantTerms(None, facts.source_pk, tuple(_all_of(name, ids) for name in streams))
        )
    return tuple(held)


def _all_of(stream: str, connection_ids: frozenset[str]) -> StreamTerms:
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
