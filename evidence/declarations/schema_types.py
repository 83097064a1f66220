"""What one property of a stream schema says about its values, as far as querying cares.

A schema may say a type in several ways: `type`, a union, `anyOf` with "null", `const`, `enum`, or a
`$ref` into its own `$defs`. Anything less plain than these has no known type, and is "mixed".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

REFERENCES_FOLLOWED = 16
NODES_READ = 256
"""How much of one property is read for its type: alternatives of alternatives multiply."""


class Shape(NamedTuple):
    """`types` as in JSON Schema, "null" included, in the order of their first mention."""

    types: tuple[str, ...]
    format: str | None


UNKNOWN = Shape((), None)


def shape(node: object, *, root: object) -> Shape:
    """The types and the format of a property schema; `root` is the schema of its stream."""
    return _shape(node, root, iter(range(NODES_READ)))


def annotation(node: object, name: str, *, root: object) -> str | None:
    """`x_pdpp_role` and the like: of the property itself, else of what it refers to."""
    for _ in range(REFERENCES_FOLLOWED):
        if not isinstance(node, Mapping):
            return None
        value = node.get(name)
        if isinstance(value, str):
            return value
        node = resolve(node.get("$ref"), root=root)
    return None


def resolve(reference: object, *, root: object) -> object:
    """What a local JSON pointer such as `#/$defs/amount` names, or None. Anchors are not followed:
    they validate, but say nothing to a query."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node = root
    for part in unquote(reference).split("/")[1:]:
        node = _step(node, part.replace("~1", "/").replace("~0", "~"))
    return node


def _step(node: object, name: str) -> object:
    if isinstance(node, Mapping):
        return node.get(name)
    if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
        return node[int(name)]
    return None


def _shape(node: object, root: object, budget: Iterator[int]) -> Shape:
    if not isinstance(node, Mapping) or next(budget, None) is None:
        return UNKNOWN
    own = _own(node)
    if own.types:
        return own
    for alternatives in (node.get("anyOf"), node.get("oneOf")):
        if isinstance(alternatives, list) and alternatives:
            return _union(_shape(part, root, budget) for part in alternatives)
    if "$ref" in node:
        return _shape(resolve(node["$ref"], root=root), root, budget)
    return UNKNOWN


def _own(node: Mapping[str, object]) -> Shape:
    text_format = node.get("format")
    names = (name for name in _declared_types(node) if isinstance(name, str))
    return Shape(tuple(dict.fromkeys(names)), text_format if isinstance(text_format, str) else None)


def _declared_types(node: Mapping[str, object]) -> Iterable[object]:
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


def _union(parts: Iterator[Shape]) -> Shape:
    shapes = []
    for part in parts:
        if not part.types:
            return UNKNOWN
        shapes.append(part)
    types = tuple(dict.fromkeys(name for part in shapes for name in part.types))
    formats = {part.format for part in shapes if part.types != ("null",)}
    return Shape(types, formats.pop() if len(formats) == 1 else None)


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
