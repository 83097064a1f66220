"""Read the types, format and annotations of a property from its JSON Schema.

The type can be in `type`, a union, `anyOf` with "null", `const`, `enum`, or a `$ref` into `$defs` of
the same schema. Any other property has no known type, and is "mixed".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from evidence.declarations.declaration import Field, StreamDeclaration

MAX_REFERENCES = 16
MAX_NODES = 256
"""Nodes read for the type of one property, because nested alternatives multiply."""


class PropertyType(NamedTuple):
    """Types of JSON Schema, with "null", in order of first occurrence."""

    types: tuple[str, ...]
    format: str | None


UNKNOWN = PropertyType((), None)


def property_type(node: object, *, root: object) -> PropertyType:
    """Return the types and the format of a property; `root` is the schema of its stream."""
    return _property_type(node, root, iter(range(MAX_NODES)))


def annotation(node: object, name: str, *, root: object) -> str | None:
    """Return an annotation such as `x_pdpp_role` of the property or of its `$ref` target."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(node, Mapping):
            return None
        value = node.get(name)
        if isinstance(value, str):
            return value
        node = resolve_pointer(node.get("$ref"), root=root)
    return None


def resolve_pointer(reference: object, *, root: object) -> object:
    """Return the target of a local JSON pointer such as `#/$defs/amount`, or None.

    Anchors are not followed.
    """
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node = root
    for part in unquote(reference).split("/")[1:]:
        node = _child(node, part.replace("~1", "/").replace("~0", "~"))
    return node


def _child(node: object, name: str) -> object:
    if isinstance(node, Mapping):
        return node.get(name)
    if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
        return node[int(name)]
    return None


def _property_type(node: object, root: object, budget: Iterator[int]) -> PropertyType:
    if not isinstance(node, Mapping) or next(budget, None) is None:
        return UNKNOWN
    declared = _declared_type(node)
    if declared.types:
        return declared
    for alternatives in (node.get("anyOf"), node.get("oneOf")):
        if isinstance(alternatives, list) and alternatives:
            return _union(_property_type(part, root, budget) for part in alternatives)
    if "$ref" in node:
        return _property_type(resolve_pointer(node["$ref"], root=root), root, budget)
    return UNKNOWN


def _declared_type(node: Mapping[str, object]) -> PropertyType:
    text_format = node.get("format")
    names = (name for name in _type_names(node) if isinstance(name, str))
    return PropertyType(
        tuple(dict.fromkeys(names)), text_format if isinstance(text_format, str) else None
    )


def _type_names(node: Mapping[str, object]) -> Iterable[object]:
    match node:
        case {"type": str() as name}:
            return (name,)
        case {"type": list() as names}:
            return names
        case {"enum": list() as values}:
            return map(_type_of, values)
        case {"const": value}:
            return (_type_of(value),)
        case _:
            return ()


def _union(alternatives: Iterator[PropertyType]) -> PropertyType:
    property_types = []
    for alternative in alternatives:
        if not alternative.types:
            return UNKNOWN
        property_types.append(alternative)
    types = tuple(dict.fromkeys(name for part in property_types for name in part.types))
    formats = {part.format for part in property_types if part.types != ("null",)}
    return PropertyType(types, formats.pop() if len(formats) == 1 else None)


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def array_item(stream: StreamDeclaration, field: Field) -> Field | None:
    """Return the items of an array as a field of their own, or None if their type is unknown."""
    types, text_format = property_type(field.schema.get("items"), root=stream.schema)
    known = tuple(each for each in types if each != "null")
    return replace(field, types=known, format=text_format) if known else None


def is_comparable(stream: StreamDeclaration, field: Field) -> bool:
    """Return whether filters can compare a field: any but objects, and arrays of anything else."""
    if field.kind == "array":
        item = array_item(stream, field)
        return item is not None and item.kind in ("string", "number", "boolean")
    return field.kind != "object"
