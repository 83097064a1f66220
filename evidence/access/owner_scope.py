"""The owner's own view: every declared stream through every connection that is not revoked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import orjson

from evidence.access.grant_terms import frozen, parsed_terms, thawed
from evidence.access.scope import (
    ConnectionFacts,
    Everything,
    GrantTerms,
    Scope,
    SourceFacts,
    StreamTerms,
    TokenKind,
)
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.sources import Source, declared

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
            index_edition=(tuple(row.indexed_languages), row.indexed_analyser),
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


NOT_ISSUED = "not-issued"


def tried_scope(grants: Iterable[tuple[int, Sequence[StreamTerms]]], *, owner_id: str) -> Scope:
    """The scope of a package with one grant for each (source, terms). The caller has made sure that
    the owner asks."""
    return replace(
        owner_scope(owner_id),
        kind=TokenKind.CLIENT,
        token_id=NOT_ISSUED,
        grants=tuple(
            GrantTerms(f"{NOT_ISSUED}-{number}", source_pk, _as_enforced(terms))
            for number, (source_pk, terms) in enumerate(grants)
        ),
    )


def held_scope(grant: Grant, *, owner_id: str) -> Scope:
    """The scope of one grant alone, as the token reads it, for the owner to look through. The caller
    has made sure that the owner asks, and that the grant is theirs."""
    terms = parsed_terms(grant.grant_id, orjson.dumps(grant.streams).decode())
    return replace(
        owner_scope(owner_id),
        kind=TokenKind.CLIENT,
        token_id=NOT_ISSUED,
        grants=(GrantTerms(grant.grant_id, grant.source_id, terms),),
    )


def _as_enforced(terms: Sequence[StreamTerms]) -> tuple[StreamTerms, ...]:
    return thawed(orjson.dumps(frozen(terms, time_fields={})))
