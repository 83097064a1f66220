"""Conditions on visible rows. A condition may only ever narrow.

Each starts with `` AND`` and names one field that the caller may filter by; making one for any
other field is refused by ``VisibleRecords.filter_field``, which every maker here calls itself.
"""

from datetime import datetime
from decimal import Decimal
from typing import Final

import orjson

from evidence.access.rows import VisibleRecords
from evidence.access.statements import Fragment
from evidence.declarations.coercion import CoercionError, Value, coerce
from evidence.declarations.layout import SLOTS
from evidence.declarations.types import Field
from evidence.refusals import InvalidRequest

ARRAYS: Final = {"n": "numbers", "t": "times", "w": "words"}
OPERATORS: Final = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


def equals(visible: VisibleRecords, name: str, text: str, *, param: str) -> Fragment:
    """Rows whose field has the value that ``text`` is for its declared type."""
    field = visible.filter_field(name, param=param)
    value = _coerced(field, text, param)
    if isinstance(value, datetime):
        column = typed_column(visible, field)
        if column is not None:
            return Fragment(f" AND {column} = %s", (value,))
    return Fragment(" AND r.data->%s = %s::jsonb", (name, _json(value, text)))


def compares(
    visible: VisibleRecords, name: str, operator: str, text: str, *, param: str
) -> Fragment:
    """Rows whose field lies beyond ``text``; the operator must be declared for the field."""
    field = visible.filter_field(name, param=param)
    if operator not in field.range_operators:
        declared = ", ".join(field.range_operators) or "none"
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {operator[:16]!r}; it declares: {declared}.",
            param=param,
        )
    value = _coerced(field, text, param)
    if isinstance(value, str):
        return Fragment(f' AND r.data->>%s COLLATE "C" {OPERATORS[operator]} %s', (name, value))
    # Whatever else declares an operator has a column.
    return Fragment(f" AND {typed_column(visible, field)} {OPERATORS[operator]} %s", (value,))


def typed_column(visible: VisibleRecords, field: Field) -> str | None:
    """The typed slot of a field as an expression over ``r``, or None when it has none."""
    assigned = visible.layout["typed"].get(field.name)
    if assigned is None or SLOTS.get(field.kind) != assigned[0]:
        return None
    slot, position = assigned
    return f"r.{ARRAYS[slot]}[{int(position)}]"


def _coerced(field: Field, text: str, param: str) -> Value:
    try:
        return coerce(field, text)
    except CoercionError as error:
        raise InvalidRequest(message=str(error), param=param) from error


def _json(value: Value, text: str) -> str:
    # A number may have more digits than 64 bits hold.
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return orjson.dumps(text).decode()
    return orjson.dumps(value).decode()
