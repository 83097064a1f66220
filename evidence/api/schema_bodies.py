"""The forms of ``GET /v1/schema``: full, compact and index (contract 2)."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from evidence import limits
from evidence.access.scope import ConnectionFacts, Scope, TokenKind
from evidence.api.envelopes import instant
from evidence.declarations.types import Field
from evidence.reading.schema import (
    ExpandCapability,
    FieldCapability,
    SourceCapability,
    StreamCapability,
)

Json = dict[str, Any]
_SEPARATORS = re.compile(r"[\s,=|:]+")


def bearer(scope: Scope) -> Json:
    """Who the schema is for."""
    if scope.kind is TokenKind.OWNER:
        return {"token_kind": "owner", "scope": "owner"}
    ids = [grant.grant_id for grant in scope.grants]
    body: Json = {
        "token_kind": str(scope.kind),
        "scope": "grant",
        "client_id": scope.client_id,
        "grant_id": ids[0],
        "expires_at": instant(scope.expires_at),
    }
    if scope.kind is TokenKind.PACKAGE:
        del body["grant_id"]
        body |= {"grant_package_id": scope.package_id, "grant_ids": ids}
    return body


def full(found: Sequence[SourceCapability], scope: Scope) -> Json:
    connectors = [
        connector_head(source) | {"streams": [full_stream(row) for row in source.streams]}
        for source in found
    ]
    return (
        {"object": "schema", "bearer": bearer(scope)} | totals(found) | {"connectors": connectors}
    )


def compact(found: Sequence[SourceCapability]) -> Json:
    """One string a field; beyond ``COMPACT_BYTES`` streams are only named."""
    body: Json = {"object": "schema", "detail": "compact"} | totals(found)
    connectors = [_compact_connector(source) for source in found]
    if len(orjson.dumps(connectors)) <= limits.COMPACT_SCHEMA_BYTES:
        return body | {"connectors": connectors}
    for connector in connectors:
        connector["streams"] = [{"name": row["name"]} for row in connector["streams"]]
    return body | {"connectors": connectors, "field_capabilities_omitted": True}


def index(found: Sequence[SourceCapability]) -> Json:
    """Names only: every stream, however many there are."""
    connectors = [
        {
            "connector_key": source.source.facts.connector_key,
            "display_name": source.source.facts.display_name,
            "granted_connections": _connections(_all_connections(source)),
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


def connector_head(source: SourceCapability) -> Json:
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


def full_stream(row: StreamCapability) -> Json:
    """``stream_metadata``: the declaration, and what this token can do with it."""
    return stream_metadata(row) | {"granted_connections": _connections(row.connections)}


def stream_metadata(row: StreamCapability) -> Json:
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
        "expand_capabilities": [_expand(expand) for expand in row.relations],
    }
    if row.record_count is not None:
        body["record_count"] = row.record_count
    return body | {"freshness": freshness(row)}


def freshness(row: StreamCapability) -> Json:
    status = "current" if row.captured_at is not None else "unknown"
    return {"status": status, "captured_at": instant(row.captured_at)}


def _query(row: StreamCapability) -> Json:
    """The declaration's own ``query`` member, cut to what this token may use."""
    ranges = {f.field.name: list(f.range_operators) for f in row.fields if f.range_operators}
    names = ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
    aggregations: Json = {"count": row.declaration.count}
    for name in names:
        fields = [f.field.name for f in row.fields if name in f.aggregations]
        if fields:
            aggregations[name] = fields
    return {
        "range_filters": ranges,
        "search": {
            "lexical_fields": [f.field.name for f in row.fields if f.lexical],
            "semantic_fields": [f.field.name for f in row.fields if f.semantic],
        },
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


def _capability(capability: FieldCapability) -> Json:
    field = capability.field
    reason = {} if capability.granted else {"reason": "field_not_granted"}
    body: Json = {"type": _type(field), "schema": field.schema, "granted": capability.granted}
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
    body["semantic_search"] = {"declared": field.semantic, "usable": capability.semantic} | (
        reason if field.semantic else {}
    )
    body["aggregation"] = {
        name: {"declared": name in field.aggregations, "usable": name in capability.aggregations}
        | (reason if name in field.aggregations else {})
        for name in ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
    }
    return body


def _type(field: Field) -> str:
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


def _expand(expand: ExpandCapability) -> Json:
    relation = expand.relation
    body = _relationship(expand) | {
        "target_stream": relation.stream,
        "default_limit": relation.default_limit,
        "max_limit": relation.max_limit,
        "granted": expand.granted,
        "usable": expand.usable,
    }
    return body | ({"reason": expand.reason} if expand.reason else {})


def _compact_connector(source: SourceCapability) -> Json:
    shared = _most_common([row.connections for row in source.streams])
    facts = source.source.facts
    return {
        "object": "connector",
        "connector_key": facts.connector_key,
        "connector_id": facts.connector_key,
        "display_name": facts.display_name,
        "stream_count": len(source.streams),
        "granted_connections": _connections(shared),
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
    body["field_capabilities"] = {f.field.name: flags(f) for f in row.fields}
    if row.relations:
        body["expand_capabilities"] = [_expand(expand) for expand in row.relations]
    if row.connections != shared:
        body["granted_connections"] = _connections(row.connections)
    return body


def flags(capability: FieldCapability) -> str:
    """One comma-joined string; the token order is that of the legend in contract 2."""
    field = capability.field
    parts = [f"t={_word(_type(field), keep_bar=True)}"] if _type(field) else []
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
        order = ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
        parts.append("a=" + "|".join(name for name in order if name in capability.aggregations))
    return ",".join(parts) or "declared"


def _word(text: str, *, keep_bar: bool = False) -> str:
    pieces = text.split("|") if keep_bar else [text]
    return "|".join(_SEPARATORS.sub("_", piece) for piece in pieces)


def _connections(connections: Sequence[ConnectionFacts]) -> list[Json]:
    return [
        {"connection_id": facts.connection_id, "display_name": facts.display_name}
        for facts in connections
    ]


def _all_connections(source: SourceCapability) -> tuple[ConnectionFacts, ...]:
    every = {facts.connection_id: facts for row in source.streams for facts in row.connections}
    return tuple(every.values())


def _most_common(sets: Sequence[tuple[ConnectionFacts, ...]]) -> tuple[ConnectionFacts, ...]:
    return Counter(sets).most_common(1)[0][0]
