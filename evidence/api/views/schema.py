"""`GET /v1/schema`, `/v1/streams` and `/v1/streams/{stream}`.

The compact body of `/v1/schema` has one string per field (contract 2).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

import orjson
from rest_framework.request import Request

from evidence import limits
from evidence.access.scope import ConnectionFacts, Scope
from evidence.api import envelopes, schema_bodies
from evidence.api.base_views import Answer, Described, GrantedView
from evidence.api.query_parameters import ApiWarning
from evidence.api.schema_bodies import (
    Json,
    connection_bodies,
    expand_capability_body,
    totals,
    type_name,
)
from evidence.declarations.declaration import USABLE_AGGREGATIONS
from evidence.declarations.roles import money_format
from evidence.errors import AmbiguousConnection
from evidence.ledger.entries import DisclosedItem
from evidence.parameters import Connections, ReadSchema
from evidence.read import schema
from evidence.read.schema import FieldCapability, SourceCapability, StreamCapability

_SEPARATORS = re.compile(r"[\s,=|:]+")


def compact_body(found: Sequence[SourceCapability], scope: Scope) -> Json:
    """Return the compact body; over COMPACT_SCHEMA_BYTES it lists only stream names."""
    bearer = schema_bodies.bearer_body(scope)
    body: Json = {"object": "schema", "detail": "compact", "bearer": bearer} | totals(found)
    connectors = [_compact_connector(source) for source in found]
    if len(orjson.dumps(connectors)) <= limits.COMPACT_SCHEMA_BYTES:
        return body | {"connectors": connectors}
    for connector in connectors:
        connector["streams"] = [{"name": row["name"]} for row in connector["streams"]]
    return body | {"connectors": connectors, "field_capabilities_omitted": True}


def _compact_connector(source: SourceCapability) -> Json:
    shared = _most_common([row.connections for row in source.streams])
    facts = source.source.facts
    return {
        "object": "connector",
        "source": {"kind": facts.kind, "id": facts.source_id},
        "connector_key": facts.connector_key,
        "connector_id": facts.connector_key,
        "display_name": facts.display_name,
        "stream_count": len(source.streams),
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
            schema.require_stream(detail=detail, stream=stream)
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id
        )
        if is_full:
            schema.require_one_source(found)
        if view == "compact":
            body = compact_body(found, self.scope)
            if "field_capabilities_omitted" in body:
                self.warnings.append(TOO_MANY_STREAMS)
        elif view == "index":
            body = schema_bodies.index_body(found)
        else:
            body = schema_bodies.full_body(found, self.scope)
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
        rows = schema.list_streams(self.gate, connection_id=self.query.connection_id)
        body = {
            "object": "list",
            "has_more": False,
            "data": [schema_bodies.stream_body(row) for row in rows],
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
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id
        )
        rows = [row for source in found for row in source.streams]
        if len(rows) > 1:
            raise AmbiguousConnection(
                [candidate for row in rows for candidate in row.visible.candidates()]
            )
        answer = envelopes.with_links_and_meta(
            schema_bodies.stream_metadata_body(rows[0]),
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
