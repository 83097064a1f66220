"""Validate which filters, searches and aggregations a field type allows."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from evidence.declarations import schema_types
from evidence.declarations.declaration import AGGREGATIONS, RANGE_OPERATORS, FieldKind, field_kind
from evidence.declarations.errors import DeclarationErrorCode, DocumentNode

ORDERED_KINDS: Final[frozenset[FieldKind]] = frozenset({"number", "time", "date", "string"})
SCALAR_KINDS: Final[frozenset[FieldKind]] = ORDERED_KINDS | {"boolean"}
TIME_KINDS: Final[frozenset[FieldKind]] = frozenset({"time", "date"})
NUMBER_KINDS: Final[frozenset[FieldKind]] = frozenset({"number"})

AGGREGATION_KINDS: Final[Mapping[str, frozenset[FieldKind]]] = {
    "count_distinct": SCALAR_KINDS,
    "group_by": SCALAR_KINDS,
    "group_by_time": TIME_KINDS,
    "sum": NUMBER_KINDS,
    "min": ORDERED_KINDS,
    "max": ORDERED_KINDS,
}


class FieldTypes(NamedTuple):
    """The kind of a field, and whether it has text to search."""

    kind: FieldKind
    is_searchable: bool


FieldTypesByName = Mapping[str, FieldTypes]


def field_types(schema: object) -> dict[str, FieldTypes]:
    """Return the types of all properties of a stream schema, which may be invalid."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {name: _types(node, root=schema) for name, node in properties.items()}


def check_query(query: DocumentNode, *, fields: FieldTypesByName) -> None:
    """Check range filters, search and aggregations. (`expand` is checked with the relations.)"""
    if query.check_object():
        _check_range_filters(query.member("range_filters"), fields=fields)
        _check_search(query.member("search"), fields=fields)
        _check_aggregations(query.member("aggregations"), fields=fields)


def check_field(
    node: DocumentNode,
    name: str,
    *,
    fields: FieldTypesByName,
    is_allowed: Callable[[FieldTypes], bool],
    code: DeclarationErrorCode = DeclarationErrorCode.INVALID_QUERY_FIELD_TYPE,
) -> None:
    """Check that a field exists and has an allowed type; `code` is that of the wrong type."""
    types = fields.get(name)
    if types is None:
        node.add_error(
            DeclarationErrorCode.UNKNOWN_SCHEMA_FIELD, "The schema has no property of this name."
        )
    elif not is_allowed(types):
        node.add_error(code, f"A field of kind {types.kind} cannot be used here.")


def of_kind(kinds: frozenset[FieldKind]) -> Callable[[FieldTypes], bool]:
    """Return a predicate for fields of these kinds."""
    return lambda types: types.kind in kinds


def _types(node: object, *, root: object) -> FieldTypes:
    kind = _kind(node, root=root)
    items = node.get("items") if kind == "array" and isinstance(node, Mapping) else None
    return FieldTypes(kind, kind == "string" or _kind(items, root=root) == "string")


def _kind(node: object, *, root: object) -> FieldKind:
    types, text_format = schema_types.property_type(node, root=root)
    return field_kind(tuple(name for name in types if name != "null"), format=text_format)


def _check_range_filters(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    for name, operators in node.members():
        check_field(operators, name, fields=fields, is_allowed=of_kind(ORDERED_KINDS))
        for operator, text in operators.unique_strings(required=True, min_items=1):
            if text not in RANGE_OPERATORS:
                message = f"Must be one of {', '.join(RANGE_OPERATORS)}."
                operator.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, message)


def _check_search(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    node.check_member_names(("lexical_fields", "semantic_fields"))
    for member in ("lexical_fields", "semantic_fields"):
        for item, name in node.member(member).unique_strings():
            check_field(item, name, fields=fields, is_allowed=lambda types: types.is_searchable)


def _check_aggregations(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    node.check_member_names(("count", *AGGREGATIONS))
    node.member("count").check_boolean()
    for member in AGGREGATIONS:
        is_allowed = of_kind(AGGREGATION_KINDS[member])
        for item, name in node.member(member).unique_strings():
            check_field(item, name, fields=fields, is_allowed=is_allowed)
