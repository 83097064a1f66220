"""Split a schema document into pages. Pure functions of the REST body.

A document is split into entries: connections, fields and other members of its streams. A page is
the document with a run of these entries only, and a cursor is the number of its first entry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.page_cutter import dumps

_MAX_ENTRY_CHARS = 1_200
_HEAD_MEMBERS = frozenset(
    {"object", "name", "display_name", "primary_key", "cursor_field", "consent_time_field"}
    | {"record_count", "semantics", "sort", "views", "count", "search_modes"}
)
_FULL_HEAD_MEMBERS = _HEAD_MEMBERS - {"views"}
_FIELDS = "field_capabilities"


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One entry of a page.

    `connector` and `stream` are indexes, `stream` None for the connector itself. `kind` is
    connection, member, schema, field or part.
    """

    connector: int
    stream: int | None
    kind: str
    key: str
    value: Any


def split_entries(body: dict[str, Any]) -> list[SchemaEntry]:
    """Return all entries of the body in the order of the pages."""
    return [
        entry
        for index, connector in enumerate(body["connectors"])
        for entry in _connector_entries(index, connector)
    ]


def _connector_entries(index: int, connector: dict[str, Any]) -> Iterator[SchemaEntry]:
    connections = connector.get("granted_connections", [])
    if "streams" not in connector:
        label = connector.get("display_name")
        yield SchemaEntry(index, None, "member", "display_name", label)
        yield from _connection_entries(index, None, connections)
        return
    for stream, row in enumerate(connector["streams"]):
        yield from _connection_entries(index, stream, row.get("granted_connections", connections))
        yield from _stream_entries(index, stream, row)


def _connection_entries(
    connector: int, stream: int | None, connections: list[dict[str, Any]]
) -> Iterator[SchemaEntry]:
    for connection in connections:
        key = connection["connection_id"]
        yield SchemaEntry(connector, stream, "connection", key, connection)


def _stream_entries(connector: int, stream: int, row: dict[str, Any]) -> Iterator[SchemaEntry]:
    full = "schema" in row
    head = _FULL_HEAD_MEMBERS if full else _HEAD_MEMBERS
    schema = row.get("schema") or {}
    properties = schema.get("properties", {})
    left_out = head | {_FIELDS, "schema", "granted_connections"}
    if row.get(_FIELDS) and len(dumps(row.get("query"))) > _MAX_ENTRY_CHARS:
        left_out |= {"query"}  # lists the fields again by what their capabilities say
    for name, value in row.items():
        if name not in left_out:
            yield from _split_large(SchemaEntry(connector, stream, "member", name, value))
    if full:
        rest = {name: value for name, value in schema.items() if name != "properties"}
        yield from _split_large(SchemaEntry(connector, stream, "schema", "schema", rest))
    for name, capability in row.get(_FIELDS, {}).items():
        whole = {"schema": properties.get(name), "capability": _declared(capability)}
        value = whole if full else capability
        yield from _split_large(SchemaEntry(connector, stream, "field", name, value))


def _declared(capability: Any) -> Any:
    """Return the capability of a field without its schema and without what is not declared."""
    if not isinstance(capability, dict):
        return capability
    repeated = {"schema", "declared"} | ({"type"} if "schema" in capability else set())
    members = {name: capability[name] for name in capability if name not in repeated}
    return {
        name: _declared(value)
        for name, value in members.items()
        if not isinstance(value, dict) or (_declared(value) and value.get("declared", True))
    }


def _split_large(entry: SchemaEntry) -> Iterator[SchemaEntry]:
    """Yield the entry, or numbered parts of its JSON if it is too large for one page."""
    text = dumps(entry.value)
    if len(text) <= _MAX_ENTRY_CHARS:
        yield entry
        return
    count = -(-len(text) // _MAX_ENTRY_CHARS)
    for number in range(count):
        part = text[number * _MAX_ENTRY_CHARS : (number + 1) * _MAX_ENTRY_CHARS]
        value = {"of": entry.key, "part": number + 1, "parts": count, "json": part}
        yield SchemaEntry(entry.connector, entry.stream, "part", entry.key, value)


def build_page(
    body: dict[str, Any], entries: Sequence[SchemaEntry], *, first: bool
) -> dict[str, Any]:
    """Return the body with only these entries. The first page of an index names every stream."""
    document = {name: value for name, value in body.items() if name not in {"connectors", "links"}}
    connectors = []
    for index, connector in enumerate(body["connectors"]):
        connector_entries = [entry for entry in entries if entry.connector == index]
        names = connector.get("stream_names") if first else None
        if connector_entries or names:
            connectors.append(_build_connector(connector, connector_entries, names=names))
    return {**document, "connectors": connectors}


def _build_connector(
    connector: dict[str, Any], entries: Sequence[SchemaEntry], *, names: list[str] | None
) -> dict[str, Any]:
    head: dict[str, Any] = {"connector_key": connector.get("connector_key")}
    if "streams" in connector:
        head["display_name"] = connector.get("display_name")
        streams = sorted({entry.stream for entry in entries if entry.stream is not None})
        head["streams"] = [
            _build_stream(
                connector["streams"][stream],
                [entry for entry in entries if entry.stream == stream],
            )
            for stream in streams
        ]
        return head
    head |= _members(entries)
    if names is not None:
        head["stream_names"] = names
    return head | _connections(entries)


def _build_stream(row: dict[str, Any], entries: Sequence[SchemaEntry]) -> dict[str, Any]:
    full = "schema" in row
    head_members = _FULL_HEAD_MEMBERS if full else _HEAD_MEMBERS
    head = {name: value for name, value in row.items() if name in head_members}
    stream = {**head, **_connections(entries), **_members(entries)}
    if parts := [entry.value for entry in entries if entry.kind == "part"]:
        stream["parts"] = parts
    fields = {entry.key: entry.value for entry in entries if entry.kind == "field"}
    if not full:
        return stream | ({_FIELDS: fields} if fields else {})
    schema: dict[str, Any] = dict(
        next((entry.value for entry in entries if entry.kind == "schema"), {})
    )
    if fields:
        schema["properties"] = {name: field["schema"] for name, field in fields.items()}
    if schema:
        stream["schema"] = schema
    if fields:
        stream[_FIELDS] = {name: field["capability"] for name, field in fields.items()}
    return stream


def _members(entries: Sequence[SchemaEntry]) -> dict[str, Any]:
    return {entry.key: entry.value for entry in entries if entry.kind == "member" and entry.value}


def _connections(entries: Sequence[SchemaEntry]) -> dict[str, Any]:
    connections = [entry.value for entry in entries if entry.kind == "connection"]
    return {"granted_connections": connections} if connections else {}
