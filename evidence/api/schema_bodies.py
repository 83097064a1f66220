"""Bodies of `GET /v1/schema`, full and index, and the items of `GET /v1/streams` (contract 2)."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts, Scope, TokenKind
from evidence.api.envelopes import format_time
from evidence.declarations.declaration import (
    AGGREGATIONS,
    USABLE_AGGREGATIONS,
    Field,
    is_aggregatable,
)
from evidence.read.schema import (
    ExpandCapability,
    FieldCapability,
    SourceCapability,
    StreamCapability,
    StreamRow,
)
from evidence.search.query_planner import is_stale, searchable_fields

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
        connector_body(source) | {"streams": [full_stream_body(row) for row in source.streams]}
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


def full_stream_body(row: StreamCapability) -> Json:
    """Return the stream's metadata and its connections."""
    return stream_metadata_body(row) | {"granted_connections": connection_bodies(row.connections)}


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
