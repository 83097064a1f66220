"""Compact body of `GET /v1/schema`: one string per field (contract 2)."""

import re
from collections import Counter
from collections.abc import Sequence

import orjson

from evidence import limits
from evidence.access.scope import ConnectionFacts
from evidence.api.schema_bodies import (
    Json,
    connection_bodies,
    expand_capability_body,
    totals,
    type_name,
)
from evidence.declarations.declaration import USABLE_AGGREGATIONS
from evidence.declarations.values import money_format
from evidence.reading.schema import FieldCapability, SourceCapability, StreamCapability

_SEPARATORS = re.compile(r"[\s,=|:]+")


def compact_body(found: Sequence[SourceCapability]) -> Json:
    """Return the compact body; over COMPACT_SCHEMA_BYTES it lists only stream names."""
    body: Json = {"object": "schema", "detail": "compact"} | totals(found)
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
