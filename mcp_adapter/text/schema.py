"""Render a schema result as text: an index of all streams, or the fields of one stream."""

from typing import Any

from evidence.json_text import dumps

LEGEND = {
    "t": "type",
    "role": "declared meaning",
    "eq": "filter {field: value or {ne: value}}; texts also {contains: part}",
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
            **structured["next"],
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
