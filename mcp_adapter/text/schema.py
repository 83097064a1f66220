"""The text of a schema result: an index of everything, or what can be asked of one stream."""

from typing import Any

from mcp_adapter.json_text import dumps

LEGEND = {
    "t": "type",
    "role": "declared meaning",
    "eq": "filter {field: value}",
    "r": "filter {field: {operator: value}} with these operators",
    "lex": "search finds its words",
    "sem": "semantic search covers it",
    "a": "aggregate: metric with field, or group_by, or group_by_time",
    "g=false": "not granted",
    "primary_key": "identity, returned with every projection",
}
"""What the flags of a compact field mean."""

_SPACED = " "


def render(structured: dict[str, Any]) -> str:
    """The same page as in the structured output, with less around it."""
    document = structured["data"]
    if document.get("detail") == "index":
        return dumps(_index(document, structured["next"]))
    return dumps(_rows(document, structured["next"]))


def _index(document: dict[str, Any], steps: dict[str, Any]) -> dict[str, Any]:
    connectors = document["connectors"]
    drawn: dict[str, Any] = {
        name: document[name] for name in ("connector_count", "stream_count") if name in document
    }
    if streams := _by_connector(connectors, "stream_names"):
        drawn["streams"] = {key: _listed(names) for key, names in streams.items()}
    if found := _by_connector(connectors, "granted_connections"):
        drawn["connections"] = {
            key: {each["connection_id"]: each.get("display_name") for each in connections}
            for key, connections in found.items()
        }
    return {**_paging(document), **drawn, **steps}


def _by_connector(connectors: list[dict[str, Any]], member: str) -> dict[str, list[Any]]:
    """The members by connector key; a second connector of the same key gets a number."""
    found: dict[str, list[Any]] = {}
    for connector in connectors:
        key = name = str(connector.get("connector_key"))
        count = 2
        while name in found:
            name, count = f"{key} #{count}", count + 1
        if connector.get(member):
            found[name] = connector[member]
    return found


def _listed(names: list[str]) -> str | list[str]:
    return names if any(_SPACED in name for name in names) else _SPACED.join(names)


def _rows(document: dict[str, Any], steps: dict[str, Any]) -> dict[str, Any]:
    rows = [
        _row(connector, row)
        for connector in document["connectors"]
        for row in connector.get("streams", [])
    ]
    known = document.get("field_capability_legend")
    legend = {"legend": known} if known else {}
    return {**_paging(document), "streams": rows, **legend, **steps}


def _row(connector: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    drawn = {"stream": row.get("name"), "connector_key": connector.get("connector_key")}
    for name, value in row.items():
        if name in {"name", "object"} or value in (None, [], {}):
            continue
        drawn[_SHORT.get(name, name)] = _drawn(name, value)
    return _full(drawn) if "schema" in row else drawn


def _full(drawn: dict[str, Any]) -> dict[str, Any]:
    """The fields with their schemas, each once, and only what can be done with them."""
    schema = dict(drawn["schema"])
    properties = schema.pop("properties", {})
    capabilities = drawn.get("fields", {})
    fields = {
        name: {"schema": properties.get(name), "can": _usable(capability)}
        for name, capability in capabilities.items()
    }
    return {**drawn, "schema": schema, "fields": fields}


def _usable(capability: dict[str, Any], path: str = "") -> list[str]:
    """The names of the usable capabilities, nested ones with a dot."""
    found = []
    for name, value in capability.items():
        if name in {"schema", "type"} or not isinstance(value, dict):
            continue
        if value.get("usable"):
            operators = value.get("operators")
            found.append(f"{path}{name}" + (f"({'|'.join(operators)})" if operators else ""))
        elif "usable" not in value:
            found += _usable(value, f"{path}{name}.")
    return found if path or capability.get("granted", True) else ["not granted"]


_SHORT = {
    "granted_connections": "connections",
    "field_capabilities": "fields",
    "expand_capabilities": "expand",
    "display_name": "label",
}


def _drawn(name: str, value: Any) -> Any:
    if name == "granted_connections":
        return {each["connection_id"]: each.get("display_name") for each in value}
    if name == "expand_capabilities":
        return [_relation(relation) for relation in value]
    return value


def _relation(relation: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "target_stream", "cardinality", "max_limit", "usable", "reason")
    return {name: relation[name] for name in kept if relation.get(name) is not None}


def _paging(document: dict[str, Any]) -> dict[str, Any]:
    return {"next_cursor": document["next_cursor"]} if document.get("next_cursor") else {}
