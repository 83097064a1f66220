"""Whether the JSON Schema of a stream may be used: well formed, self-contained, and cheap enough to
hold every record against."""

import functools
from collections.abc import Iterator, Mapping
from typing import Final

import jsonschema_rs

from evidence.declarations import names, schema_types
from evidence.declarations.errors import FAULTS_KEPT, FaultCode, Spot

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FIELDS: Final = 500
EXPANDED_NODES: Final = 20_000
EXPANDED_DEPTH: Final = 128
MEASURED_NODES: Final = 200_000
MESSAGE_CHARS: Final = 200

_REFERENCES = ("$ref", "$dynamicRef")
# Members whose content is data, whatever it looks like.
_DATA = frozenset({"const", "enum", "default", "examples"})


def check_stream_schema(spot: Spot) -> None:
    """Report what is wrong with a stream's `schema`."""
    if not spot.mapping(required=True) or not _speaks_our_dialect(spot):
        return
    before = len(spot.faults)
    _check_fields(spot)
    _check_references(spot)
    try:
        for check in (_check_against_dialect, _check_cost, _check_compiles):
            check(spot)
            if len(spot.faults) > before:
                return
    except ValueError as error:
        _report(spot, error)


def _speaks_our_dialect(spot: Spot) -> bool:
    dialect = spot.member("$schema")
    if not dialect.present or dialect.value == DIALECT:
        return True
    dialect.report(FaultCode.UNSUPPORTED_DIALECT, f"Must be {DIALECT}, or absent.")
    return False


def _check_fields(spot: Spot) -> None:
    stated = spot.member("type")
    if stated.present and stated.value != "object":
        stated.report(FaultCode.INVALID_SCHEMA, "Records are objects.")
    properties = spot.member("properties")
    if not properties.mapping(required=True) or not isinstance(properties.value, Mapping):
        return
    if len(properties.value) > FIELDS:
        properties.report(FaultCode.TOO_MANY, f"More than {FIELDS} fields.")
    for name, field in properties.members():
        names.field_name(name, spot=field)


def _check_references(spot: Spot) -> None:
    for name, inner in spot.members():
        target = inner.value
        if name in _REFERENCES and isinstance(target, str) and not target.startswith("#"):
            inner.report(
                FaultCode.NONLOCAL_SCHEMA_REFERENCE, "Must start with '#': schemas stand alone."
            )
        elif name not in _DATA:
            _check_references(inner)
    for inner in spot.items():
        _check_references(inner)


def _check_against_dialect(spot: Spot) -> None:
    for error in _dialect().iter_errors(spot.value):
        _report(spot, error)
        if len(spot.faults) >= FAULTS_KEPT:
            return


def _check_compiles(spot: Spot) -> None:
    """What the dialect's own schema cannot say: dangling references, bad regular expressions.
    Raises the library's ValueError."""
    if isinstance(spot.value, dict):
        jsonschema_rs.Draft202012Validator(spot.value, offline=True)


def _check_cost(spot: Spot) -> None:
    """Report a schema that is too large or too deep once its references are written out: holding
    one record against it could take as long as anyone likes."""
    try:
        size = _Expansion(spot.value).size(spot.value, 0)
    except _TooComplexError:
        size = EXPANDED_NODES + 1
    if size > EXPANDED_NODES:
        spot.report(
            FaultCode.SCHEMA_TOO_COMPLEX,
            f"More than {EXPANDED_NODES} nodes or {EXPANDED_DEPTH} levels with its references.",
        )


class _TooComplexError(Exception):
    """The schema cannot be measured with reasonable effort."""


class _Expansion:
    """Sizes of schema nodes with every local reference in its place. A reference back to where it
    stands counts once: it consumes a level of the record with each turn."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.anchors = dict(_anchors(root))
        self.known: dict[str, int] = {}
        self.visited = 0

    def size(self, node: object, depth: int) -> int:
        self.visited += 1
        if depth > EXPANDED_DEPTH or self.visited > MEASURED_NODES:
            raise _TooComplexError
        if isinstance(node, list):
            return sum(self.size(item, depth + 1) for item in node)
        if not isinstance(node, Mapping):
            return 0
        return 1 + sum(self._members(node, depth + 1))

    def _members(self, node: Mapping[str, object], depth: int) -> Iterator[int]:
        for name, value in node.items():
            if name in _REFERENCES and isinstance(value, str):
                yield self._target(value, depth)
            elif name not in _DATA and name != "$defs":
                yield self.size(value, depth)

    def _target(self, reference: str, depth: int) -> int:
        if reference not in self.known:
            self.known[reference] = 0
            anchored = self.anchors.get(reference[1:])
            target = anchored or schema_types.resolve(reference, root=self.root)
            self.known[reference] = self.size(target, depth)
        return self.known[reference]


def _anchors(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, Mapping):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(name), str):
                yield node[name], node
        for value in node.values():
            yield from _anchors(value)
    elif isinstance(node, list):
        for value in node:
            yield from _anchors(value)


@functools.cache
def _dialect() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": DIALECT}, offline=True)


def _report(spot: Spot, error: ValueError) -> None:
    """Report what the library found where it found it, in its first line."""
    path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else []
    for name in path:
        spot = spot.member(name) if isinstance(name, str) else list(spot.items())[name]
    spot.report(FaultCode.INVALID_SCHEMA, str(error).partition("\n")[0][:MESSAGE_CHARS])
