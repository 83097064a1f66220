"""`GET /v1/schema`, `/v1/streams` and `/v1/streams/{stream}`.

Capabilities are the intersection of the granted terms and the current declaration (design, decision
3), so clients can rely on each flag. The compact body of `/v1/schema` has one string per field
(contract 2).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import orjson
from rest_framework.request import Request

from evidence import limits
from evidence.access.gate import Gate, VisibleSource
from evidence.access.ranking.vectors import EmbeddingProgress, StreamKey
from evidence.access.record_counts import stored_counts
from evidence.access.records import VisibleRecords, sortable_fields
from evidence.access.scope import ConnectionFacts, GrantedStream, Scope, TokenKind, granted_views
from evidence.api import envelopes
from evidence.api.base_views import Answer, ApiWarning, Described, GrantedView
from evidence.api.envelopes import format_time
from evidence.declarations.declaration import (
    AGGREGATIONS,
    USABLE_AGGREGATIONS,
    Field,
    Relation,
    StreamDeclaration,
    is_aggregatable,
    is_comparable,
    money_format,
)
from evidence.errors import AmbiguousConnection, AmbiguousSchemaDetail, InvalidRequest
from evidence.ledger.entries import DisclosedItem
from evidence.parameters import Connections, ReadSchema
from evidence.read.expansion import refusal_reason, with_effective_limits
from evidence.search.query_planner import is_stale, searchable_fields
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


Json = dict[str, Any]


def bearer_body(scope: Scope) -> Json:
    """Return the members that describe the token."""
    if scope.kind is TokenKind.OWNER:
        return {"token_kind": "owner", "scope": "owner"}
    ids = [grant.grant_id for grant in scope.grants]
    body: Json = {
        "token_kind": str(scope.kind),
        "scope": "grant",
        "client_id": scope.client_id,
        "grant_id": ids[0],
        "expires_at": format_time(scope.expires_at),
    }
    if scope.kind is TokenKind.PACKAGE:
        del body["grant_id"]
        body |= {"grant_package_id": scope.package_id, "grant_ids": ids}
    return body


def full_body(found: Sequence[SourceCapability], scope: Scope) -> Json:
    connectors = [
        connector_body(source)
        | {
            "streams": [
                stream_metadata_body(row)
                | {"granted_connections": connection_bodies(row.connections)}
                for row in source.streams
            ]
        }
        for source in found
    ]
    return (
        {"object": "schema", "bearer": bearer_body(scope)}
        | totals(found)
        | {"connectors": connectors}
    )


def index_body(found: Sequence[SourceCapability]) -> Json:
    """Return only the names of all streams."""
    connectors = [
        {
            "connector_key": source.source.facts.connector_key,
            "display_name": source.source.facts.display_name,
            "granted_connections": connection_bodies(_all_connections(source)),
            "stream_names": list(dict.fromkeys(row.declaration.name for row in source.streams)),
        }
        for source in found
    ]
    return {"object": "schema", "detail": "index"} | totals(found) | {"connectors": connectors}


def totals(found: Sequence[SourceCapability]) -> Json:
    return {
        "connector_count": len(found),
        "stream_count": sum(len(source.streams) for source in found),
    }


def connector_body(source: SourceCapability) -> Json:
    facts = source.source.facts
    return {
        "object": "connector",
        "source": {"kind": facts.kind, "id": facts.source_id},
        "connector_key": facts.connector_key,
        "connector_id": facts.connector_key,
        "display_name": facts.display_name,
        "declaration_version": source.source.declared.declaration.version,
        "stream_count": len(source.streams),
    }


def stream_metadata_body(row: StreamCapability) -> Json:
    declaration = row.declaration
    body: Json = {
        "object": "stream_metadata",
        "name": declaration.name,
        "description": declaration.description,
        "display": {"label": declaration.label, "detail": declaration.detail},
        "primary_key": list(declaration.primary_key),
        "cursor_field": declaration.cursor_field,
        "consent_time_field": declaration.consent_time_field,
        "semantics": declaration.semantics,
        "selection": {
            "fields": declaration.selection_fields,
            "resources": declaration.selection_resources,
        },
        "schema": declaration.schema,
        "views": [
            {"id": view.id, "label": view.label, "fields": list(view.fields)}
            for view in declaration.views.values()
            if view.id in row.views
        ],
        "relationships": [_relationship(expand) for expand in row.relations],
        "sort": list(row.sort),
        "count": ["exact", "estimated"],
        "search_modes": list(row.search_modes),
        "query": _query(row),
        "field_capabilities": {field.field.name: _capability(field) for field in row.fields},
        "expand_capabilities": [full_expand_body(expand) for expand in row.relations],
    }
    if row.record_count is not None:
        body["record_count"] = row.record_count
    return body | {"freshness": freshness(row)}


def freshness(row: StreamCapability) -> Json:
    """Return when records last came; collectors do not report failed attempts."""
    return _freshness(row.captured_at) | index_maintenance(row.visible, row.visible.connections)


def _freshness(at: datetime | None) -> Json:
    return (
        {"status": "unknown"}
        if at is None
        else {"status": "current", "captured_at": format_time(at)}
    )


def _query(row: StreamCapability) -> Json:
    """Return the declaration's `query` member, limited to what this token may use."""
    ranges = {f.field.name: list(f.range_operators) for f in row.fields if f.range_operators}
    aggregations: Json = {"count": True} if row.declaration.count else {}
    for name in USABLE_AGGREGATIONS:
        fields = [f.field.name for f in row.fields if name in f.aggregations]
        if fields:
            aggregations[name] = fields
    return {
        "range_filters": ranges,
        "search": _search(row),
        "aggregations": aggregations,
        "expand": [
            {
                "name": expand.relation.name,
                "default_limit": expand.relation.default_limit,
                "max_limit": expand.relation.max_limit,
            }
            for expand in row.relations
            if expand.usable
        ],
    }


def _search(row: StreamCapability) -> Json:
    return {
        "lexical_fields": [f.field.name for f in row.fields if f.lexical],
        "semantic_fields": [f.field.name for f in row.fields if f.semantic],
    }


def _capability(capability: FieldCapability) -> Json:
    field = capability.field
    reason = {} if capability.granted else {"reason": "field_not_granted"}
    body: Json = {"type": type_name(field), "schema": field.schema, "granted": capability.granted}
    if field.role is not None:
        body["role"] = field.role
    body["exact_filter"] = {"declared": True, "usable": capability.exact_filter} | reason
    if field.range_operators:
        body["range_filter"] = {
            "declared": True,
            "usable": bool(capability.range_operators),
            "operators": list(field.range_operators),
        } | reason
    body["lexical_search"] = {"declared": field.lexical, "usable": capability.lexical} | (
        reason if field.lexical else {}
    )
    semantic = {"declared": field.semantic, "usable": capability.semantic}
    body["semantic_search"] = semantic | (reason if field.semantic else {})
    body["aggregation"] = {
        name: {"declared": is_aggregatable(field, name), "usable": name in capability.aggregations}
        | (reason if name in field.aggregations else {})
        for name in (USABLE_AGGREGATIONS if field.kind == "number" else AGGREGATIONS)
    }
    return body


def type_name(field: Field) -> str:
    if field.pdpp_type is not None:
        return field.pdpp_type
    return "|".join([*field.types, *(["null"] if field.nullable else [])])


def _relationship(expand: ExpandCapability) -> Json:
    relation = expand.relation
    return {
        "name": relation.name,
        "stream": relation.stream,
        "foreign_key": relation.foreign_key,
        "cardinality": relation.cardinality,
    }


def expand_capability_body(expand: ExpandCapability) -> Json:
    relation = expand.relation
    body = _relationship(expand) | {
        "target_stream": relation.stream,
        "default_limit": relation.default_limit,
        "max_limit": relation.max_limit,
        "granted": expand.granted,
        "usable": expand.usable,
    }
    return body | ({"reason": expand.reason} if expand.reason else {})


def full_expand_body(expand: ExpandCapability) -> Json:
    """Return the same with the field that holds the key of the other record, by its name in the contract."""
    return expand_capability_body(expand) | {"child_parent_key_field": expand.relation.foreign_key}


def connection_bodies(connections: Sequence[ConnectionFacts]) -> list[Json]:
    return [
        {"connection_id": facts.connection_id, "display_name": facts.display_name}
        for facts in connections
    ]


def _all_connections(source: SourceCapability) -> tuple[ConnectionFacts, ...]:
    connections = (facts for row in source.streams for facts in row.connections)
    return tuple({facts.connection_id: facts for facts in connections}.values())


def stream_body(row: StreamRow) -> Json:
    """Return an item of `GET /v1/streams`."""
    body: Json = {
        "object": "stream",
        "name": row.visible.stream.name,
        "connection_id": row.connection.connection_id,
        "connector_instance_id": row.connection.connection_id,
        "connector_key": row.visible.source.connector_key,
        "connector_id": row.visible.source.connector_key,
        "display_name": row.connection.display_name,
        "source": {"kind": row.visible.source.kind, "id": row.visible.source.source_id},
    }
    if row.record_count is not None:
        body["record_count"] = row.record_count
    if row.latest_at is not None:
        body["last_updated"] = format_time(row.latest_at)
    return body | {
        "freshness": _freshness(row.latest_at) | index_maintenance(row.visible, [row.connection])
    }


def index_maintenance(visible: VisibleRecords, connections: Iterable[ConnectionFacts]) -> Json:
    """Return `index_maintenance` for a searchable stream whose index is being rebuilt."""
    reindexing = any(is_stale(facts) for facts in connections)
    return {"index_maintenance": True} if reindexing and searchable_fields(visible) else {}


_SEPARATORS = re.compile(r"[\s,=|:]+")


def compact_body(found: Sequence[SourceCapability], scope: Scope) -> Json:
    """Return the compact body; over COMPACT_SCHEMA_BYTES it lists only stream names."""
    bearer = bearer_body(scope)
    body: Json = {"object": "schema", "detail": "compact", "bearer": bearer} | totals(found)
    connectors = [_compact_connector(source) for source in found]
    if len(orjson.dumps(connectors)) <= limits.COMPACT_SCHEMA_BYTES:
        return body | {"connectors": connectors}
    for connector in connectors:
        connector["streams"] = [{"name": row["name"]} for row in connector["streams"]]
    return body | {"connectors": connectors, "field_capabilities_omitted": True}


def _compact_connector(source: SourceCapability) -> Json:
    shared = _most_common([row.connections for row in source.streams])
    body = connector_body(source)
    del body["declaration_version"]
    return body | {
        "granted_connections": connection_bodies(shared),
        "streams": [_compact_stream(row, shared) for row in source.streams],
    }


def _compact_stream(row: StreamCapability, shared: tuple[ConnectionFacts, ...]) -> Json:
    declaration = row.declaration
    body: Json = {"name": declaration.name, "primary_key": list(declaration.primary_key)}
    if declaration.label:
        body["display_name"] = declaration.label
    if declaration.cursor_field:
        body["cursor_field"] = declaration.cursor_field
    if declaration.consent_time_field not in (None, declaration.cursor_field):
        body["consent_time_field"] = declaration.consent_time_field
    if row.record_count is not None:
        body["record_count"] = row.record_count
    if row.sort:
        body["sort"] = list(row.sort)
    if row.views:
        body["views"] = list(row.views)
    if row.search_modes:
        body["search_modes"] = list(row.search_modes)
    body["count"] = ["exact", "estimated"]
    body["field_capabilities"] = {f.field.name: capability_flags(f) for f in row.fields}
    if row.relations:
        body["expand_capabilities"] = [expand_capability_body(expand) for expand in row.relations]
    if row.connections != shared:
        body["granted_connections"] = connection_bodies(row.connections)
    return body


def capability_flags(capability: FieldCapability) -> str:
    """Return a comma-joined string; contract 2 defines the tokens and their order."""
    field = capability.field
    parts = [f"t={_word(type_name(field), keep_bar=True)}"] if type_name(field) else []
    if field.role:
        parts.append(f"role={_word(field.role)}")
    if not capability.granted:
        parts.append("g=false")
    if capability.exact_filter:
        parts.append("eq")
    if capability.range_operators:
        parts.append("r=" + "|".join(capability.range_operators))
    if capability.lexical:
        parts.append("lex")
    if capability.semantic:
        parts.append("sem")
    if capability.aggregations:
        usable = (name for name in USABLE_AGGREGATIONS if name in capability.aggregations)
        parts.append("a=" + "|".join(usable))
    if money := money_format(field):
        unit = "minor" if money.is_minor else "major"
        parts.append(f"m={unit}|{_word(money.currency_field)}")
    return ",".join(parts) or "declared"


def _word(text: str, *, keep_bar: bool = False) -> str:
    pieces = text.split("|") if keep_bar else [text]
    return "|".join(_SEPARATORS.sub("_", piece) for piece in pieces)


def _most_common(sets: Sequence[tuple[ConnectionFacts, ...]]) -> tuple[ConnectionFacts, ...]:
    return Counter(sets).most_common(1)[0][0]


TOO_MANY_STREAMS = ApiWarning(
    "partial_results",
    "Too many streams to describe all fields; choose one with stream.",
    "stream",
)


class SchemaView(GrantedView):
    """Describe what this token can read."""

    route = "schema"
    described: ClassVar = {"GET": Described("Schema")}
    conditional = True
    parameters = ReadSchema
    query: ReadSchema

    def get(self, request: Request) -> Answer:
        view = (self.query.view or "").strip().lower()
        stream = self.query.stream
        detail = self.query.detail or "compact"
        is_full = detail == "full" and view not in ("compact", "index")
        if is_full:
            require_stream(detail=detail, stream=stream)
        found = capabilities(self.gate, stream=stream, connection_id=self.query.connection_id)
        if is_full:
            require_one_source(found)
        if view == "compact":
            body = compact_body(found, self.scope)
            if "field_capabilities_omitted" in body:
                self.warnings.append(TOO_MANY_STREAMS)
        elif view == "index":
            body = index_body(found)
        else:
            body = full_body(found, self.scope)
        answer = envelopes.with_links_and_meta(body, self_link=self.url, warnings=self.warnings)
        return Answer(answer, [] if view == "index" else _schema_items(found))


class StreamsView(GrantedView):
    """List the streams of each connection."""

    route = "streams"
    described: ClassVar = {"GET": Described("StreamList")}
    conditional = True
    parameters = Connections
    query: Connections

    def get(self, request: Request) -> Answer:
        rows = list_streams(self.gate, connection_id=self.query.connection_id)
        body = {
            "object": "list",
            "has_more": False,
            "data": [stream_body(row) for row in rows],
        }
        items = [
            DisclosedItem(row.connection.connection_id, row.visible.stream.name, None, frozenset())
            for row in rows
        ]
        answer = envelopes.with_links_and_meta(body, self_link=self.url, warnings=self.warnings)
        return Answer(answer, items)


class StreamView(GrantedView):
    """Return the metadata of one stream, as in the schema."""

    route = "stream"
    described: ClassVar = {"GET": Described("StreamMetadata")}
    conditional = True
    parameters = Connections
    query: Connections

    def get(self, request: Request, stream: str) -> Answer:
        found = capabilities(self.gate, stream=stream, connection_id=self.query.connection_id)
        rows = [row for source in found for row in source.streams]
        if len(rows) > 1:
            raise AmbiguousConnection(
                [candidate for row in rows for candidate in row.visible.candidates()]
            )
        answer = envelopes.with_links_and_meta(
            stream_metadata_body(rows[0]),
            self_link=self.url,
            warnings=self.warnings,
        )
        return Answer(answer, _schema_items(found))


def _schema_items(sources: Iterable[SourceCapability]) -> list[DisclosedItem]:
    """Return the streams of a schema whose record count or freshness it shows."""
    return [
        item
        for source in sources
        for row in source.streams
        if row.record_count is not None or row.captured_at is not None
        for item in envelopes.stream_items(row.visible, fields=frozenset())
    ]
