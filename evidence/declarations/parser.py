"""Parse a valid declaration document into a SourceDeclaration.

Call `validation.find_errors` first: this module does not validate. It parses two shapes: the
normative SourceDeclaration (contract 5.1), and the connector manifest of the reference, which has
other member names.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from evidence import limits
from evidence.declarations import schema_types
from evidence.declarations.declaration import (
    AGGREGATIONS,
    RANGE_OPERATORS,
    Field,
    Relation,
    SourceDeclaration,
    StreamDeclaration,
    View,
)

# Values are Any, because the document has been validated.
Node = Mapping[str, Any]

_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{0,2}[!-.0-~][!-~]*")


def is_wrapper(document: Mapping[str, object]) -> bool:
    """Return whether the document has the normative shape; a manifest has no `source`."""
    return "source" in document


def parse_declaration(document: Node) -> SourceDeclaration:
    """Return the declaration of a valid document of either shape."""
    wrapper = is_wrapper(document)
    return SourceDeclaration(
        source_kind=document["source"]["kind"] if wrapper else "connector",
        source_id=source_id(document),
        connector_key=connector_key(document),
        version=document["declaration_version" if wrapper else "version"],
        display_name=_display_name(document),
        publisher=document.get("publisher", {}).get("id"),
        streams={node["name"]: _stream(node) for node in document["streams"]},
    )


def source_id(document: Node) -> str:
    """Return the absolute URI of the source.

    In a manifest this is its id or its own URI; without either, a URN is made from the key.
    """
    if is_wrapper(document):
        return str(document["source"]["id"])
    candidates = (document.get("connector_id"), document.get("manifest_uri"))
    uri = next((text for text in candidates if is_absolute_uri(text)), None)
    return uri or f"urn:pdpp:connector:{connector_key(document)}"


def connector_key(document: Node) -> str:
    """Return the short name of the source; by default the last segment of its id."""
    key = document.get("connector_key")
    if key is not None:
        return str(key)
    identity = document["source"]["id"] if is_wrapper(document) else document["connector_id"]
    return last_segment(str(identity))


def last_segment(uri: str) -> str:
    """Return the last segment of the path of a URI, or its host without a path.

    This is `mailbox` for `https://registry.example/connectors/mailbox` and `urn:example:mailbox`.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = parts.path.rstrip("/")
    return path.replace(":", "/").rpartition("/")[2] if path else parts.netloc


def is_absolute_uri(text: object) -> bool:
    """Return whether `text` has a scheme and more, in printable ASCII.

    RFC 3986 is stricter, but an identity is only compared, as a string.
    """
    return isinstance(text, str) and bool(_ABSOLUTE_URI.fullmatch(text))


def _display_name(document: Node) -> str:
    if is_wrapper(document):
        return str(document["display"]["name"])
    return str(document.get("display_name") or document.get("name") or connector_key(document))


def _stream(node: Node) -> StreamDeclaration:
    display, query = node.get("display", {}), node.get("query", {})
    selection = node.get("selection", {})
    return StreamDeclaration(
        name=node["name"],
        description=node.get("description"),
        label=display.get("label"),
        detail=display.get("detail"),
        semantics="mutable_state" if node["semantics"] == "mutable_state" else "append_only",
        primary_key=tuple(node["primary_key"]),
        cursor_field=node.get("cursor_field"),
        consent_time_field=node.get("consent_time_field"),
        fields={
            name: _field(name, schema=node["schema"], query=query)
            for name in node["schema"]["properties"]
        },
        views={view["id"]: _view(view) for view in node.get("views", ())},
        relations=_relations(node.get("relationships", ()), expands=query.get("expand", ())),
        selection_fields=selection.get("fields", False),
        selection_resources=selection.get("resources", False),
        schema=node["schema"],
        required=tuple(node["schema"].get("required", ())),
        count=query.get("aggregations", {}).get("count", False),
    )


def _field(name: str, *, schema: Node, query: Node) -> Field:
    node = schema["properties"][name]
    types, text_format = schema_types.property_type(node, root=schema)
    search, aggregations = query.get("search", {}), query.get("aggregations", {})
    operators = query.get("range_filters", {}).get(name, ())
    return Field(
        name=name,
        types=tuple(name for name in types if name != "null"),
        nullable=not types or "null" in types,
        format=text_format,
        pdpp_type=schema_types.annotation(node, "x_pdpp_type", root=schema),
        role=schema_types.annotation(node, "x_pdpp_role", root=schema),
        schema=node if isinstance(node, Mapping) else {},
        lexical=name in search.get("lexical_fields", ()),
        semantic=name in search.get("semantic_fields", ()),
        range_operators=tuple(operator for operator in RANGE_OPERATORS if operator in operators),
        aggregations=frozenset(
            metric for metric in AGGREGATIONS if name in aggregations.get(metric, ())
        ),
    )


def _view(node: Node) -> View:
    return View(id=node["id"], label=node.get("label", node["id"]), fields=tuple(node["fields"]))


def _relations(nodes: list[Node], *, expands: list[Node]) -> dict[str, Relation]:
    expandable = {node["name"]: node for node in expands}
    return {node["name"]: _relation(node, expand=expandable.get(node["name"])) for node in nodes}


def _relation(node: Node, *, expand: Node | None) -> Relation:
    bounds = expand or {}
    max_limit = min(bounds.get("max_limit", limits.EXPAND_MAX), limits.EXPAND_MAX)
    return Relation(
        name=node["name"],
        stream=node["stream"],
        foreign_key=node["foreign_key"],
        cardinality=node["cardinality"],
        default_limit=min(bounds.get("default_limit", limits.EXPAND_DEFAULT), max_limit),
        max_limit=max_limit,
        expandable=expand is not None,
    )
