"""A declaration document, without faults, as values. Run `validation.faults` first: here a missing
member is a KeyError and a wrong one nonsense.

Two shapes are read: the normative SourceDeclaration (contract 5.1) and the connector manifest of
the reference, which names the same things differently.
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

# The document is JSON that has been checked member by member; its values are taken at their word.
Node = Mapping[str, Any]

_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{0,2}[!-.0-~][!-~]*")


def is_wrapper(document: Mapping[str, object]) -> bool:
    """Whether the document is the normative shape; the manifest has no `source`."""
    return "source" in document


def parse(document: Node) -> SourceDeclaration:
    """The declaration of a document of either shape."""
    streams = {node["name"]: _stream(node) for node in document["streams"]}
    wrapper = is_wrapper(document)
    return SourceDeclaration(
        source_kind=document["source"]["kind"] if wrapper else "connector",
        source_id=source_id(document),
        connector_key=connector_key(document),
        version=document["declaration_version" if wrapper else "version"],
        display_name=_display_name(document),
        publisher=document.get("publisher", {}).get("id"),
        streams=streams,
    )


def source_id(document: Node) -> str:
    """The absolute URI of the source. A manifest may give it as its id, as the URI where it is
    kept, or not at all; then the key makes one."""
    if is_wrapper(document):
        return str(document["source"]["id"])
    stated = (document.get("connector_id"), document.get("manifest_uri"))
    uri = next((text for text in stated if is_absolute_uri(text)), None)
    return uri or f"urn:pdpp:connector:{connector_key(document)}"


def connector_key(document: Node) -> str:
    """The short name of the source: stated, else the last segment of its id."""
    stated = document.get("connector_key")
    if stated is not None:
        return str(stated)
    identity = document["source"]["id"] if is_wrapper(document) else document["connector_id"]
    return last_segment(str(identity))


def last_segment(uri: str) -> str:
    """`mailbox` of `https://registry.example/connectors/mailbox` and of `urn:example:mailbox`; the
    host of a URI without a path."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = parts.path.rstrip("/")
    return path.replace(":", "/").rpartition("/")[2] if path else parts.netloc


def is_absolute_uri(text: object) -> bool:
    """Whether `text` has a scheme and something after it, in printable ASCII. (RFC 3986 asks for
    more; but an identity is only ever compared, as a string.)"""
    return isinstance(text, str) and bool(_ABSOLUTE_URI.fullmatch(text))


def _display_name(document: Node) -> str:
    if is_wrapper(document):
        return str(document["display"]["name"])
    named = document.get("display_name") or document.get("name")
    return str(named or connector_key(document))


def _stream(node: Node) -> StreamDeclaration:
    display, query = node.get("display", {}), node.get("query", {})
    selection = node.get("selection", {})
    return StreamDeclaration(
        name=node["name"],
        description=node.get("description"),
        label=display.get("label"),
        detail=display.get("detail"),
        semantics=node["semantics"],
        primary_key=tuple(node["primary_key"]),
        cursor_field=node.get("cursor_field"),
        consent_time_field=node.get("consent_time_field"),
        fields=_fields(node["schema"], query=query),
        views={view["id"]: _view(view) for view in node.get("views", ())},
        relations=_relations(node.get("relationships", ()), expands=query.get("expand", ())),
        selection_fields=selection.get("fields", False),
        selection_resources=selection.get("resources", False),
        schema=node["schema"],
        required=tuple(node["schema"].get("required", ())),
        count=query.get("aggregations", {}).get("count", False),
    )


def _fields(schema: Node, *, query: Node) -> dict[str, Field]:
    properties = schema["properties"]
    return {name: _field(name, schema=schema, query=query) for name in properties}


def _field(name: str, *, schema: Node, query: Node) -> Field:
    node = schema["properties"][name]
    types, text_format = schema_types.shape(node, root=schema)
    search, aggregations = query.get("search", {}), query.get("aggregations", {})
    operators = query.get("range_filters", {}).get(name, ())
    return Field(
        name=name,
        types=tuple(each for each in types if each != "null"),
        nullable=not types or "null" in types,
        format=text_format,
        pdpp_type=schema_types.annotation(node, "x_pdpp_type", root=schema),
        role=schema_types.annotation(node, "x_pdpp_role", root=schema),
        schema=node if isinstance(node, Mapping) else {},
        lexical=name in search.get("lexical_fields", ()),
        semantic=name in search.get("semantic_fields", ()),
        range_operators=tuple(each for each in RANGE_OPERATORS if each in operators),
        aggregations=frozenset(each for each in AGGREGATIONS if name in aggregations.get(each, ())),
    )


def _view(node: Node) -> View:
    return View(id=node["id"], label=node.get("label", node["id"]), fields=tuple(node["fields"]))


def _relations(nodes: list[Node], *, expands: list[Node]) -> dict[str, Relation]:
    expandable = {node["name"]: node for node in expands}
    return {node["name"]: _relation(node, expand=expandable.get(node["name"])) for node in nodes}


def _relation(node: Node, *, expand: Node | None) -> Relation:
    stated = expand or {}
    most = min(stated.get("max_limit", limits.EXPAND_MAX), limits.EXPAND_MAX)
    return Relation(
        name=node["name"],
        stream=node["stream"],
        foreign_key=node["foreign_key"],
        cardinality=node["cardinality"],
        default_limit=min(stated.get("default_limit", limits.EXPAND_DEFAULT), most),
        max_limit=most,
        expandable=expand is not None,
    )
