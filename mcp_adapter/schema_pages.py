"""Schema documents, page by page. Pure: a REST body in, the part of it that is shown out.

A document is taken apart into entries (a connection, a field, another member of a stream row) and
put together again from a run of them. So a page is the document with fewer entries, in the very
shape that REST gave it, and a cursor is the number of the first entry to show.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_adapter.json_text import dumps

_PART_CHARS = 1_200
_ROW_HEAD = frozenset(
    {"object", "name", "display_name", "primary_key", "cursor_field", "consent_time_field"}
    | {"record_count", "semantics", "sort", "views", "count", "search_modes"}
)
_FULL_HEAD = _ROW_HEAD - {"views"}
_FIELDS = "field_capabilities"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing on a page: `place` is (connector, stream row or None), `kind` says what it is."""

    place: tuple[int, int | None]
    kind: str
    key: str
    value: Any


def entries(body: dict[str, Any]) -> list[Entry]:
    """Everything of the body that can wait for a later page, in the order in which it is shown."""
    return [
        entry
        for number, connector in enumerate(body["connectors"])
        for entry in _connector_entries(number, connector)
    ]


def _connector_entries(number: int, connector: dict[str, Any]) -> Iterator[Entry]:
    if "streams" not in connector:
        place = (number, None)
        yield Entry(place, "member", "display_name", connector.get("display_name"))
        for connection in connector.get("granted_connections", []):
            yield Entry(place, "connection", connection["connection_id"], connection)
        return
    for index, row in enumerate(connector["streams"]):
        place_of_row = (number, index)
        shared = connector.get("granted_connections", [])
        for connection in row.get("granted_connections", shared):
            yield Entry(place_of_row, "connection", connection["connection_id"], connection)
        yield from _row_entries(place_of_row, row)


def _row_entries(place: tuple[int, int], row: dict[str, Any]) -> Iterator[Entry]:
    full = "schema" in row
    head = _FULL_HEAD if full else _ROW_HEAD
    schema = row.get("schema") or {}
    properties = schema.get("properties", {})
    for name, value in row.items():
        if name not in head | {_FIELDS, "schema", "granted_connections"}:
            yield from _parts(Entry(place, "member", name, value))
    if full:
        rest = {name: value for name, value in schema.items() if name != "properties"}
        yield from _parts(Entry(place, "schema", "schema", rest))
    for name, capability in row.get(_FIELDS, {}).items():
        value = {"schema": properties.get(name), "capability": capability} if full else capability
        yield from _parts(Entry(place, "field", name, value))


def _parts(entry: Entry) -> Iterator[Entry]:
    """The entry, or the JSON of a value too large for one page in numbered parts."""
    whole = dumps(entry.value)
    if len(whole) <= _PART_CHARS:
        yield entry
        return
    count = -(-len(whole) // _PART_CHARS)
    for number in range(count):
        part = whole[number * _PART_CHARS : (number + 1) * _PART_CHARS]
        value = {"of": entry.key, "part": number + 1, "parts": count, "json": part}
        yield Entry(entry.place, "part", entry.key, value)


def page(body: dict[str, Any], shown: Sequence[Entry], *, first: bool) -> dict[str, Any]:
    """The body with the entries shown and nothing else; the first page of an index names every
    stream."""
    document = {name: value for name, value in body.items() if name not in {"connectors", "links"}}
    connectors = []
    for number, connector in enumerate(body["connectors"]):
        mine = [entry for entry in shown if entry.place[0] == number]
        names = connector.get("stream_names") if first else None
        if mine or names:
            connectors.append(_connector(connector, mine, names=names))
    return {**document, "connectors": connectors}


def _connector(
    connector: dict[str, Any], mine: Sequence[Entry], *, names: list[str] | None
) -> dict[str, Any]:
    head: dict[str, Any] = {"connector_key": connector.get("connector_key")}
    if "streams" in connector:
        head["display_name"] = connector.get("display_name")
        rows = sorted({entry.place[1] for entry in mine if entry.place[1] is not None})
        head["streams"] = [
            _row(connector["streams"][row], [entry for entry in mine if entry.place[1] == row])
            for row in rows
        ]
        return head
    head |= _members(mine)
    if names is not None:
        head["stream_names"] = names
    return head | _connections(mine)


def _row(row: dict[str, Any], mine: Sequence[Entry]) -> dict[str, Any]:
    head_names = _FULL_HEAD if "schema" in row else _ROW_HEAD
    head = {name: value for name, value in row.items() if name in head_names}
    fields = {entry.key: entry.value for entry in mine if entry.kind == "field"}
    shown = {**head, **_connections(mine), **_members(mine)}
    parts = [entry.value for entry in mine if entry.kind == "part"]
    if parts:
        shown["parts"] = parts
    if "schema" not in row:
        return shown | ({_FIELDS: fields} if fields else {})
    rest: dict[str, Any] = next((entry.value for entry in mine if entry.kind == "schema"), {})
    properties = {name: field["schema"] for name, field in fields.items()}
    schema = {**rest, **({"properties": properties} if properties else {})}
    capabilities = {name: field["capability"] for name, field in fields.items()}
    return (
        shown
        | ({"schema": schema} if schema else {})
        | ({_FIELDS: capabilities} if capabilities else {})
    )


def _members(mine: Sequence[Entry]) -> dict[str, Any]:
    return {entry.key: entry.value for entry in mine if entry.kind == "member" and entry.value}


def _connections(mine: Sequence[Entry]) -> dict[str, Any]:
    found = [entry.value for entry in mine if entry.kind == "connection"]
    return {"granted_connections": found} if found else {}
