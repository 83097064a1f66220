"""The items of array fields, which filters compare one by one."""

from dataclasses import replace

from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.declarations.schema_types import property_type


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
