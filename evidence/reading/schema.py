"""What a token can really do: fields, filters, search, aggregates and relations, per source.

Everything is the intersection of what the grant froze and what the declaration says now
(design, decision 3), so a client may rely on each flag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evidence.access.aggregates import kept_counts
from evidence.access.gate import Gate, VisibleSource
from evidence.access.granted_streams import Sight
from evidence.access.ranking.vectors import Reach, Scoped
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.declarations.declaration import AGGREGATIONS, Field, Relation, StreamDeclaration
from evidence.errors import AmbiguousSchemaDetail, InvalidRequest
from evidence.reading.expansion import bounded, why_not
from evidence.search.query_planner import SEMANTIC, embedded, modes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCapability:
    """What may be done with one declared field."""

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
    """One stream of one source, as one grant (or several of equal terms) shows it."""

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
    """Every source with its visible streams, narrowed to a stream name and a connection.

    At most three queries beyond the token: declarations not yet known, the counters, and with a
    model for semantic search how far the vectors have come.
    """
    names = None if stream is None else [stream]
    chosen = gate.streams(names=names, connection_id=connection_id)
    facts = Facts(gate, kept_counts(chosen), embedded(chosen))
    shown = []
    for source in gate.sources:
        here = [each for each in chosen if each.source.source_pk == source.facts.source_pk]
        rows = [row for visible in here for row in _rows(visible, facts)]
        if rows:
            shown.append(SourceCapability(source=source, streams=tuple(rows)))
    return shown


def require_one_source(found: Sequence[SourceCapability]) -> None:
    """The full schema is for one source; refuses with candidates otherwise (decision 5)."""
    if len(found) > 1:
        raise AmbiguousSchemaDetail(
            [
                candidate
                for source in found
                for row in source.streams
                for candidate in row.visible.candidates()
            ]
        )


def require_stream(*, detail: str, stream: str | None) -> None:
    if detail == "full" and stream is None:
        raise InvalidRequest(
            message="detail=full is for one stream; name it with stream.",
            param="detail",
            next_step="GET /v1/schema?stream=NAME&connection_id=ID&detail=full",
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What rows are made of beside the declaration: (connection_id, stream) -> counters, vectors."""

    gate: Gate
    counters: Mapping[Scoped, tuple[int, datetime | None]]
    vectors: Mapping[Scoped, Reach]


def _rows(visible: VisibleRecords, facts: Facts) -> list[StreamCapability]:
    """One row where all grants of the stream say the same, else one for each of them."""
    if len({_rights(sight) for sight in visible.sights}) == 1:
        return [_row(visible, facts)]
    return [_row(visible.through(sight), facts) for sight in visible.sights]


def _rights(sight: Sight) -> tuple[object, ...]:
    terms = sight.terms
    return terms.fields, terms.filters, terms.views, terms.relations


def _row(visible: VisibleRecords, facts: Facts) -> StreamCapability:
    modes = modes_of(visible, facts.vectors)
    fields = tuple(
        field_capability(visible, field, by_meaning=SEMANTIC in modes)
        for field in visible.stream.fields.values()
    )
    kept = [
        facts.counters.get((each.connection_id, visible.stream.name))
        for each in visible.connections
    ]
    known = [each for each in kept if each is not None]
    times = [latest for _, latest in known if latest is not None]
    return StreamCapability(
        visible=visible,
        fields=fields,
        relations=tuple(
            _relation(facts.gate, visible, relation)
            for relation in visible.stream.relations.values()
            if relation.expandable
        ),
        views=_views(visible),
        sort=_sort(visible),
        search_modes=modes,
        record_count=sum(n for n, _ in known) if len(known) == len(kept) else None,
        captured_at=max(times) if times and len(known) == len(kept) else None,
    )


def field_capability(visible: VisibleRecords, field: Field, *, by_meaning: bool) -> FieldCapability:
    granted = visible.shows(field.name)
    chosen_by = visible.filters_by(field.name) and field.kind not in ("array", "object")
    return FieldCapability(
        field=field,
        granted=granted,
        exact_filter=chosen_by,
        range_operators=field.range_operators if chosen_by else (),
        lexical=granted and field.lexical,
        semantic=granted and field.semantic and by_meaning,
        aggregations=frozenset(
            name for name in AGGREGATIONS if chosen_by and name in field.aggregations
        ),
    )


def _sort(visible: VisibleRecords) -> tuple[str, ...]:
    cursor_field = visible.stream.cursor_field
    return (cursor_field,) if cursor_field and visible.filters_by(cursor_field) else ()


def _views(visible: VisibleRecords) -> tuple[str, ...]:
    return tuple(
        name
        for name, view in visible.stream.views.items()
        if all(sight.terms.views.allows(name) for sight in visible.sights)
        and all(visible.shows(field) for field in view.fields)
    )


def _relation(gate: Gate, visible: VisibleRecords, relation: Relation) -> ExpandCapability:
    reason = why_not(gate, visible, relation)
    return ExpandCapability(
        relation=bounded(visible, relation),
        granted=reason != "related_stream_not_granted",
        usable=reason is None,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class StreamRow:
    """``record_count`` and ``latest_at`` are None where a grant hides something of the stream."""

    visible: VisibleRecords
    connection: ConnectionFacts
    record_count: int | None
    latest_at: datetime | None


def listed(gate: Gate, *, connection_id: str | None) -> list[StreamRow]:
    """One row for each (stream, connection); one query beyond the token's."""
    chosen = gate.streams(connection_id=connection_id)
    counters = kept_counts(chosen)
    return [
        StreamRow(
            visible,
            facts,
            *counters.get((facts.connection_id, visible.stream.name), (None, None)),
        )
        for visible in chosen
        for facts in visible.connections
    ]
