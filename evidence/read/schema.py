"""Describe what a token can do with each source, stream and field.

Capabilities are the intersection of the granted terms and the current declaration (design, decision
3), so clients can rely on each flag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evidence.access.gate import Gate, VisibleSource
from evidence.access.granted_streams import GrantedStream
from evidence.access.ranking.vectors import EmbeddingProgress, StreamKey
from evidence.access.record_counts import stored_counts
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.declarations.declaration import (
    USABLE_AGGREGATIONS,
    Field,
    Relation,
    StreamDeclaration,
    is_aggregatable,
    is_comparable,
)
from evidence.errors import AmbiguousSchemaDetail, InvalidRequest
from evidence.read.expansion import refusal_reason, with_effective_limits
from evidence.read.records import granted_views, sortable_fields
from evidence.search.semantic import SEMANTIC, search_modes, vector_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCapability:
    """What a token can do with one declared field."""

    field: Field
    granted: bool
    exact_filter: bool
    range_operators: tuple[str, ...]
    lexical: bool
    semantic: bool
    aggregations: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandCapability:
    relation: Relation
    granted: bool
    usable: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCapability:
    """One stream of one source as shown by one grant, or by several grants with equal terms."""

    visible: VisibleRecords
    fields: tuple[FieldCapability, ...]
    relations: tuple[ExpandCapability, ...]
    views: tuple[str, ...]
    sort: tuple[str, ...]
    search_modes: tuple[str, ...]
    record_count: int | None
    captured_at: datetime | None

    @property
    def declaration(self) -> StreamDeclaration:
        return self.visible.stream

    @property
    def connections(self) -> tuple[ConnectionFacts, ...]:
        return self.visible.connections


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCapability:
    source: VisibleSource
    streams: tuple[StreamCapability, ...]


def capabilities(
    gate: Gate, *, stream: str | None = None, connection_id: str | None = None
) -> list[SourceCapability]:
    """Return the sources with their visible streams, optionally of one name and one connection.

    Runs at most three queries after authentication: uncached declarations, counters, and embedding
    progress if there is an embedding model.
    """
    names = None if stream is None else [stream]
    streams = gate.streams(names=names, connection_id=connection_id)
    facts = SchemaFacts(gate, stored_counts(streams), vector_progress(streams))
    result = []
    for source in gate.sources:
        of_source = [s for s in streams if s.source.source_pk == source.facts.source_pk]
        rows = [row for visible in of_source for row in _stream_capabilities(visible, facts)]
        if rows:
            result.append(SourceCapability(source=source, streams=tuple(rows)))
    return result


def require_one_source(sources: Sequence[SourceCapability]) -> None:
    """Raise AmbiguousSchemaDetail with candidates if there are several sources (decision 5)."""
    if len(sources) > 1:
        raise AmbiguousSchemaDetail(
            [
                candidate
                for source in sources
                for row in source.streams
                for candidate in row.visible.candidates()
            ]
        )


def require_stream(*, detail: str, stream: str | None) -> None:
    """Raise InvalidRequest if the full schema is requested without a stream."""
    if detail == "full" and stream is None:
        raise InvalidRequest(
            message="detail=full needs one stream; add stream.",
            param="detail",
            next_step="GET /v1/schema?stream=NAME&connection_id=ID&detail=full",
        )


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """Counters and embedding progress by (connection_id, stream)."""

    gate: Gate
    counters: Mapping[StreamKey, tuple[int, datetime | None]]
    vectors: Mapping[StreamKey, EmbeddingProgress]


def _stream_capabilities(visible: VisibleRecords, facts: SchemaFacts) -> list[StreamCapability]:
    """Return one row if the terms of all grants are equal, otherwise one row per grant."""
    if len({_schema_terms(grant) for grant in visible.granted}) == 1:
        return [_stream_capability(visible, facts)]
    return [_stream_capability(visible.restricted_to(grant), facts) for grant in visible.granted]


def _schema_terms(grant: GrantedStream) -> tuple[object, ...]:
    terms = grant.terms
    return terms.fields, terms.filters, terms.views, terms.relations


def _stream_capability(visible: VisibleRecords, facts: SchemaFacts) -> StreamCapability:
    modes = search_modes(visible, facts.vectors)
    fields = tuple(
        field_capability(visible, field, is_embedded=SEMANTIC in modes)
        for field in visible.stream.fields.values()
    )
    stored = [
        facts.counters.get((connection.connection_id, visible.stream.name))
        for connection in visible.connections
    ]
    counters = [counter for counter in stored if counter is not None]
    is_complete = len(counters) == len(stored)
    times = [latest for _, latest in counters if latest is not None]
    return StreamCapability(
        visible=visible,
        fields=fields,
        relations=tuple(
            _expand_capability(facts.gate, visible, relation)
            for relation in visible.stream.relations.values()
            if relation.expandable
        ),
        views=granted_views(visible),
        sort=tuple(sortable_fields(visible)),
        search_modes=modes,
        record_count=sum(n for n, _ in counters) if is_complete else None,
        captured_at=max(times) if times and is_complete else None,
    )


def field_capability(
    visible: VisibleRecords, field: Field, *, is_embedded: bool
) -> FieldCapability:
    granted = visible.shows(field.name)
    filterable = visible.can_filter_by(field.name) and is_comparable(visible.stream, field)
    return FieldCapability(
        field=field,
        granted=granted,
        exact_filter=filterable,
        range_operators=field.range_operators if filterable else (),
        lexical=granted and field.lexical,
        semantic=granted and field.semantic and is_embedded,
        aggregations=frozenset(
            name for name in USABLE_AGGREGATIONS if filterable and is_aggregatable(field, name)
        ),
    )


def _expand_capability(gate: Gate, visible: VisibleRecords, relation: Relation) -> ExpandCapability:
    reason = refusal_reason(gate, visible, relation)
    return ExpandCapability(
        relation=with_effective_limits(visible, relation),
        granted=reason != "related_stream_not_granted",
        usable=reason is None,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream of one connection; counts are None if a grant hides a part of the stream."""

    visible: VisibleRecords
    connection: ConnectionFacts
    record_count: int | None
    latest_at: datetime | None


def list_streams(gate: Gate, *, connection_id: str | None) -> list[StreamRow]:
    """Return one row per stream and connection; one query after authentication."""
    streams = gate.streams(connection_id=connection_id)
    counters = stored_counts(streams)
    return [
        StreamRow(
            visible,
            facts,
            *counters.get((facts.connection_id, visible.stream.name), (None, None)),
        )
        for visible in streams
        for facts in visible.connections
    ]
