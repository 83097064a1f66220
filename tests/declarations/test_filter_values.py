"""Filter values are parsed by field type, or refused with a helpful message."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from evidence.declarations.values import FilterValueError, parse_filter_value, sort_key
from tests.declarations.documents import Document, field

TIME: Document = {"type": "string", "format": "date-time"}
DATE: Document = {"type": "string", "format": "date"}
UNION: Document = {"type": ["string", "integer", "null"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "-12", -12),
        ({"type": "integer"}, "1e3", 1_000),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "number"}, "0.10", Decimal("0.1")),
        ({"type": ["integer", "number"]}, "1.5", Decimal("1.5")),
        ({"type": "boolean"}, "false", False),
        (TIME, "2026-11-21T08:00:00+01:00", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        (TIME, "2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        (DATE, "2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ({"type": "string"}, "12", "12"),
        ({"type": "string"}, "", ""),
        (UNION, "12", 12),
        (UNION, '"12"', "12"),
        (UNION, "twelve", "twelve"),
        (UNION, "1.5", "1.5"),
        ({"type": "integer"}, "1e100000", Decimal("1e100000")),
        ({"type": ["boolean", "string"]}, "true", True),
        ({}, "1.5", Decimal("1.5")),
    ],
)
def test_text_is_parsed_by_declared_type(schema: Document, text: str, value: object) -> None:
    parsed = parse_filter_value(field(schema), text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({"type": "integer"}, "twelve", "f takes an integer."),
        ({"type": "integer"}, "1.5", "f takes an integer."),
        ({"type": "integer"}, "", "f takes an integer."),
        ({"type": "integer"}, " 1", "f takes an integer."),
        ({"type": "integer"}, "٣", "f takes an integer."),
        ({"type": "integer"}, "1e999999", "f takes an integer."),
        ({"type": "number"}, "NaN", "f takes a number."),
        ({"type": "number"}, "0x10", "f takes a number."),
        ({"type": "boolean"}, "True", "f takes true or false."),
        (TIME, "2026-11-21T08:00:00", "f takes a date-time with an offset"),
        (TIME, "1763713800", "f takes a date-time with an offset"),
        (DATE, "2026-11-21T08:00:00Z", "f takes a date, such as"),
        (DATE, "2026-13-01", "f takes a date, such as"),
        ({"type": "array"}, "a", "f is an array, which cannot be compared."),
        ({"type": "object"}, "{}", "f is an object, which cannot be compared."),
        ({"type": ["integer", "boolean"]}, "a", "f takes boolean or integer."),
        (UNION, '"12', "f starts with a quotation mark"),
        ({"type": "string"}, "a\0b", "f takes no NUL characters."),
        ({"type": "string"}, "a" * 1_025, "f takes at most 1024 characters."),
    ],
)
def test_text_of_another_type_is_refused(schema: Document, text: str, message: str) -> None:
    with pytest.raises(FilterValueError, match=r"^f ") as refusal:
        parse_filter_value(field(schema), text)

    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("schema", [TIME, DATE])
def test_filter_value_equals_stored_value(schema: Document) -> None:
    assert sort_key(field(schema), parse_filter_value(field(schema), "2026-11-21")) == (
        sort_key(field(schema), "2026-11-21" if schema is DATE else "2026-11-21T00:00:00Z")
    )
