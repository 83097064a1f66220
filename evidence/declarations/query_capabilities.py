"""What the type of a field lets a declaration ask of it, and what a stream's `query` may say."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from evidence.declarations import schema_types
from evidence.declarations.declaration import AGGREGATIONS, RANGE_OPERATORS, Kind, kind_of
from evidence.declarations.errors import FaultCode, Spot

ORDERED: Final[frozenset[Kind]] = frozenset({"number", "time", "date", "string"})
SCALAR: Final[frozenset[Kind]] = ORDERED | {"boolean"}
MOMENTS: Final[frozenset[Kind]] = frozenset({"time", "date"})
NUMBERS: Final[frozenset[Kind]] = frozenset({"number"})

AGGREGATED: Final[Mapping[str, frozenset[Kind]]] = {
    "count_distinct": SCALAR,
    "group_by": SCALAR,
    "group_by_time": MOMENTS,
    "sum": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
}


class FieldTypes(NamedTuple):
    """What the rules ask of one property: its kind, and whether text search can read it."""

    kind: Kind
    text: bool


Fields = Mapping[str, FieldTypes]


def field_types(schema: object) -> dict[str, FieldTypes]:
    """The properties of a stream schema that may itself be faulty."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {name: _types(node, root=schema) for name, node in properties.items()}


def check_query(query: Spot, *, fields: Fields) -> None:
    """Report what is wrong with range filters, search and aggregations. (`expand` is checked with
    the relations.)"""
    if query.mapping():
        _check_range_filters(query.member("range_filters"), fields=fields)
        _check_search(query.member("search"), fields=fields)
        _check_aggregations(query.member("aggregations"), fields=fields)


def check_field(
    spot: Spot, name: str, *, fields: Fields, allowed: Callable[[FieldTypes], bool], code: FaultCode
) -> None:
    """Report a name that is no field, or one of a type that the place does not allow."""
    types = fields.get(name)
    if types is None:
        spot.report(FaultCode.UNKNOWN_SCHEMA_FIELD, "The schema has no property of this name.")
    elif not allowed(types):
        spot.report(code, f"A field of kind {types.kind} cannot be used here.")


def of_kind(kinds: frozenset[Kind]) -> Callable[[FieldTypes], bool]:
    """Whether a field is of one of `kinds`."""
    return lambda types: types.kind in kinds


def _types(node: object, *, root: object) -> FieldTypes:
    kind = _kind(node, root=root)
    items = node.get("items") if kind == "array" and isinstance(node, Mapping) else None
    return FieldTypes(kind, kind == "string" or _kind(items, root=root) == "string")


def _kind(node: object, *, root: object) -> Kind:
    types, text_format = schema_types.shape(node, root=root)
    return kind_of(tuple(name for name in types if name != "null"), format=text_format)


def _check_range_filters(spot: Spot, *, fields: Fields) -> None:
    if not spot.mapping():
        return
    for name, operators in spot.members():
        _check_query_field(operators, name, fields=fields, allowed=of_kind(ORDERED))
        for operator, text in operators.texts(required=True, least=1):
            if text not in RANGE_OPERATORS:
                wording = f"Must be one of {', '.join(RANGE_OPERATORS)}."
                operator.report(FaultCode.INVALID_MEMBER_VALUE, wording)


def _check_search(spot: Spot, *, fields: Fields) -> None:
    if not spot.mapping():
        return
    spot.known(("lexical_fields", "semantic_fields"))
    for member in ("lexical_fields", "semantic_fields"):
        for item, name in spot.member(member).texts():
            _check_query_field(item, name, fields=fields, allowed=lambda types: types.text)


def _check_aggregations(spot: Spot, *, fields: Fields) -> None:
    if not spot.mapping():
        return
    spot.known(("count", *AGGREGATIONS))
    spot.member("count").flag()
    for member in AGGREGATIONS:
        allowed = of_kind(AGGREGATED[member])
        for item, name in spot.member(member).texts():
            _check_query_field(item, name, fields=fields, allowed=allowed)


def _check_query_field(
    spot: Spot, name: str, *, fields: Fields, allowed: Callable[[FieldTypes], bool]
) -> None:
    check_field(spot, name, fields=fields, allowed=allowed, code=FaultCode.INVALID_QUERY_FIELD_TYPE)
