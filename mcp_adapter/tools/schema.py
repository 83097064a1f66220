"""schema: return what the grant covers, and what can be queried in one stream.

A document is split into entries: connections, fields and other members of its streams. A page is
the document with a run of these entries only, and a cursor is the number of its first entry.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.item_lines import next_call
from evidence.page_cutter import dumps, largest_that_fits, wire_size
from evidence.parameters import ReadSchema
from mcp_adapter.tool import (
    PAGE_BUDGET,
    SEARCH_BUDGET,
    AdapterError,
    Arguments,
    Budget,
    Call,
    Result,
    Tool,
    own_text,
    query_params,
    tool_arguments,
)

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


LEGEND = {
    "t": "type",
    "role": "declared meaning",
    "eq": "filter {field: value, [values] or {ne: value}}; texts also {contains: part}",
    "r": "filter {field: {operator: value}} with these operators",
    "lex": "search finds its words; filter {field: {words: q}}",
    "sem": "semantic search covers it",
    "a": "aggregate: metric with field, or group_by, or group_by_time",
    "m": "money, in minor or major units of the currency in that field; money shows the decimal",
    "g=false": "not granted",
    "primary_key": "identity, returned with every projection",
}
"""Meaning of the flags of a compact field."""
_SHORT_NAMES = {
    "granted_connections": "connections",
    "field_capabilities": "fields",
    "expand_capabilities": "expand",
    "display_name": "label",
}
_FLAGS = {
    "exact_filter": "eq",
    "range_filter": "r",
    "lexical_search": "lex",
    "semantic_search": "sem",
    "aggregation.": "a=",
}
_RELATION_MEMBERS = ("name", "target_stream", "cardinality", "max_limit", "usable", "reason")


def render(structured: dict[str, Any]) -> str:
    """Return the page of the structured output in a shorter form."""
    document = structured["data"]
    cursor = document.get("next_cursor")
    render_document = _index if document.get("detail") == "index" else _streams
    return dumps(
        {
            **({"next_cursor": cursor} if cursor else {}),
            **render_document(document),
            "hint": structured["hint"],
            **({"next": steps} if (steps := structured["next"]) else {}),
        }
    )


def _index(document: dict[str, Any]) -> dict[str, Any]:
    connectors = document["connectors"]
    index: dict[str, Any] = {
        name: document[name] for name in ("connector_count", "stream_count") if name in document
    }
    if streams := _by_connector(connectors, "stream_names"):
        index["streams"] = {key: _join_names(names) for key, names in streams.items()}
    if connections := _by_connector(connectors, "granted_connections"):
        index["connections"] = {key: _labels(granted) for key, granted in connections.items()}
    return index


def _by_connector(connectors: list[dict[str, Any]], member: str) -> dict[str, list[Any]]:
    """Return the members by connector key; a second connector of the same key gets a number."""
    members: dict[str, list[Any]] = {}
    for connector in connectors:
        key = name = str(connector.get("connector_key"))
        count = 2
        while name in members:
            name, count = f"{key} #{count}", count + 1
        if connector.get(member):
            members[name] = connector[member]
    return members


def _join_names(names: list[str]) -> str | list[str]:
    """Join names with spaces, which is shorter than a list, unless one contains a space."""
    return names if any(" " in name for name in names) else " ".join(names)


def _labels(connections: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        connection["connection_id"]: connection.get("display_name") for connection in connections
    }


def _streams(document: dict[str, Any]) -> dict[str, Any]:
    streams = [
        _stream(connector, row)
        for connector in document["connectors"]
        for row in connector.get("streams", [])
    ]
    legend = document.get("field_capability_legend")
    return {"streams": streams, **({"legend": legend} if legend else {})}


def _stream(connector: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    stream = {"stream": row.get("name"), "connector_key": connector.get("connector_key")}
    for name, value in row.items():
        if name in {"name", "object"} or value in (None, [], {}):
            continue
        stream[_SHORT_NAMES.get(name, name)] = _member(name, value)
    return _with_field_schemas(stream) if "schema" in row else stream


def _member(name: str, value: Any) -> Any:
    if name == "granted_connections":
        return _labels(value)
    if name == "expand_capabilities":
        return [
            {name: relation[name] for name in _RELATION_MEMBERS if relation.get(name) is not None}
            for relation in value
        ]
    return value


def _with_field_schemas(stream: dict[str, Any]) -> dict[str, Any]:
    """Move the schema of each field next to its usable capabilities."""
    schema = dict(stream["schema"])
    properties = schema.pop("properties", {})
    fields = {
        name: _full_field(properties.get(name), _usable(capability))
        for name, capability in stream.get("fields", {}).items()
    }
    return {**stream, "schema": schema, "fields": fields}


def _full_field(schema: Any, usable: list[str]) -> Any:
    """Return schema and capabilities, as one string if the schema is only a type."""
    if not isinstance(schema, dict) or set(schema) != {"type"}:
        return {"schema": schema, "can": usable}
    types = schema["type"]
    can = " ".join(usable)
    for name, flag in _FLAGS.items():
        can = can.replace(name, flag)
    return f"{types if isinstance(types, str) else '|'.join(types)}: {can}"


def _usable(capability: dict[str, Any], path: str = "") -> list[str]:
    """Return the names of the usable capabilities, nested ones with a dot."""
    usable = []
    for name, value in capability.items():
        if name in {"schema", "type"} or not isinstance(value, dict):
            continue
        if value.get("usable"):
            operators = value.get("operators")
            usable.append(f"{path}{name}" + (f"({'|'.join(operators)})" if operators else ""))
        elif "usable" not in value:
            usable += _usable(value, f"{path}{name}.")
    return usable if path or capability.get("granted", True) else ["not granted"]


DESCRIPTION = (
    "Show what this grant covers (read-only; GET /v1/schema). Without arguments: every "
    "stream by connector, and the connections. schema(stream) gives fields, filters, sorts, "
    "relations, aggregations and connection ids for the other tools; narrow "
    'with connection_id. detail "full" adds the JSON Schema, only together with stream. Call '
    "this first. May be shown as structured output."
)
ARGUMENTS = tool_arguments(
    "stream",
    own_text("connection_id", "Only this connection"),
    "detail",
    own_text("cursor"),
    route=ReadSchema,
)
_CURSOR_PREFIX = "schema:"


def run(call: Call) -> Result:
    """Read the schema, and return as many entries from the cursor on as fit, at least one."""
    arguments = call.arguments
    full = arguments.get("detail") == "full"
    if full and "stream" not in arguments:
        raise AdapterError(
            "schema_detail_needs_stream",
            "detail 'full' is given for one stream at a time.",
            param="detail",
            next_step="Call schema() for the stream names, then "
            "schema(stream, connection_id, detail='full').",
        )
    body = call.get_json("/v1/schema", _params(arguments, full=full))
    body = {"connectors": [], **body} if "stream" in arguments else _as_index(body)
    entries = split_entries(body)
    start = _parse_cursor(arguments, count=len(entries))
    budget = SEARCH_BUDGET if full else _budget(body, first=start == 0)

    def build(count: int) -> Result:
        return _build(body, entries, arguments, start=start, end=start + max(count, 1))

    remaining = len(entries) - start
    result = build(remaining)
    if budget.allows(result):
        return result
    return largest_that_fits(remaining - 1, render=build, fits=budget.allows) or build(1)


def _as_index(body: dict[str, Any]) -> dict[str, Any]:
    """Return the index of a schema, which another server may have sent in full."""
    connectors = [
        {name: value for name, value in connector.items() if name != "streams"}
        | {"stream_names": [str(row.get("name")) for row in connector["streams"]]}
        if "streams" in connector
        else connector
        for connector in body.get("connectors", [])
    ]
    return {**body, "detail": "index", "connectors": connectors}


def _params(arguments: Arguments, *, full: bool) -> list[tuple[str, str]]:
    connection = query_params(arguments, "connection_id")
    if "stream" not in arguments:
        return [("view", "index"), *connection]
    form = ("detail", "full") if full else ("view", "compact")
    return [form, ("stream", arguments["stream"]), *connection]


def _cursor(arguments: Arguments, *, at: int, count: int) -> str:
    """Return the cursor of an entry, bound to the call and to the number of entries."""
    asked = [arguments.get(name) for name in ("stream", "connection_id", "detail")]
    return f"{_CURSOR_PREFIX}{at}:{zlib.crc32(dumps([*asked, count]).encode()):08x}"


def _parse_cursor(arguments: Arguments, *, count: int) -> int:
    if "cursor" not in arguments:
        return 0
    number = arguments["cursor"].removeprefix(_CURSOR_PREFIX).partition(":")[0]
    start = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    if not 0 < start < count or arguments["cursor"] != _cursor(arguments, at=start, count=count):
        raise AdapterError(
            "invalid_cursor",
            "The cursor is not one that schema gave for these arguments.",
            param="cursor",
            next_step="Call schema again without cursor.",
        )
    return start


def _budget(body: dict[str, Any], *, first: bool) -> Budget:
    """Return the budget; the first page of an index names every stream in addition to it."""
    names = [
        name
        for connector in body["connectors"]
        if "stream_names" in connector
        for name in (str(connector.get("connector_key")), *connector["stream_names"])
    ]
    extra = sum(wire_size(name) for name in names) if first else 0
    return Budget(PAGE_BUDGET.structured + extra, PAGE_BUDGET.text + extra)


def _build(
    body: dict[str, Any], entries: list[SchemaEntry], arguments: Arguments, *, start: int, end: int
) -> Result:
    full = arguments.get("detail") == "full"
    document = build_page(body, entries[start:end], first=start == 0)
    if document.get("detail") not in _HINTS:
        document["detail"] = "full" if full else "compact"
    if document["detail"] == "compact":
        document["field_capability_legend"] = LEGEND
    if end < len(entries):
        document["next_cursor"] = _cursor(arguments, at=end, count=len(entries))
    steps = _next_steps(document, arguments)
    structured = {"hint": _HINTS[document["detail"]], "next": steps, "data": document}
    return Result(structured, render(structured))


def _next_steps(document: dict[str, Any], arguments: Arguments) -> dict[str, dict[str, Any]]:
    """Return the calls for the next page, and for the first stream that this one shows."""
    if not document["connectors"]:
        return {"schema": next_call("schema", {})} if "stream" in arguments else {}
    steps = {}
    if "next_cursor" in document:
        steps["page"] = next_call("schema", arguments, cursor=document["next_cursor"])
    connectors = document["connectors"]
    connection = {name: arguments[name] for name in ("connection_id",) if name in arguments}
    if document["detail"] == "index":
        names = [name for one in connectors for name in one.get("stream_names", [])]
        first = {"stream": next_call("schema", {"stream": names[0], **connection})} if names else {}
        return steps | first
    if len(connectors) > 1 and not connection:
        # A stream of several sources needs a connection.
        rows = [row for one in connectors for row in one.get("streams", [])]
        ids = [each["connection_id"] for row in rows for each in row.get("granted_connections", [])]
        connection = {"connection_id": ids[0]} if ids else {}
    target = {"stream": arguments["stream"], **connection}
    steps["records"] = next_call("query_records", target)
    steps["count"] = next_call("aggregate", target, metric="count")
    return steps


_HINTS = {
    "index": "schema(stream) shows the fields of a stream; search(q) finds words in all of them.",
    "compact": "Any field shown can stand in fields; aggregate with metric=count always works.",
    "full": "Capabilities that are not shown are not declared; eq, r, lex, sem and a= are as in the "
    "legend of the compact schema.",
}

TOOL = Tool("schema", "Schema", DESCRIPTION, ARGUMENTS, run)
