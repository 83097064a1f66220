"""Sort keys, instants and indexed texts compare as their values."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evidence.declarations.declaration import Field, field_text
from evidence.declarations.values import (
    INDEXED_TEXT_BYTES,
    declared_time,
    indexed_text,
    parse_instant,
    sort_key,
    to_number,
    truncate_text,
)
from tests.declarations.documents import field

NUMBER = field({"type": "number"})
STRING = field({"type": "string"})
TIME = field({"type": "string", "format": "date-time"})
DATE = field({"type": "string", "format": "date"})
MIXED = field({})

integers = st.integers(-(10**60), 10**60)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
floats = st.floats(allow_nan=False, allow_infinity=False)
days = st.dates(date(1900, 1, 1), date(2100, 12, 31))
instants = st.builds(datetime.combine, days, st.times(timezones=st.just(UTC)))


def key(field: Field, value: object) -> bytes:
    text = sort_key(field, value)
    assert text is not None
    return text.encode()


def in_order(field: Field, values: list[object], ordered: list[object]) -> bool:
    return sorted(values, key=lambda value: key(field, value)) == ordered


@given(st.lists(st.one_of(integers, decimals), max_size=8))
@example([0, -1, 1, Decimal("-1.5"), Decimal("-1.55"), Decimal("1E+20"), 10**19, Decimal("1E-9")])
@example([-10, -9, -99, -100, 9, 10, 99, 100])
def test_numbers_sort_as_numbers(values: list[int | Decimal]) -> None:
    keys = sorted(values, key=lambda value: key(NUMBER, value))

    assert keys == sorted(values)


@given(floats, floats)
@example(0.1, 0.1 + 1e-17)
@example(-0.0, 0.0)
@example(5e-324, 1.7976931348623157e308)
def test_floats_sort_as_floats(one: float, other: float) -> None:
    assert (key(NUMBER, one) < key(NUMBER, other)) == (one < other)
    assert (key(NUMBER, one) == key(NUMBER, other)) == (one == other)


def test_equal_numbers_have_equal_keys() -> None:
    same = [100, 100.0, Decimal("100.00"), Decimal("1E+2"), Decimal("0100")]

    assert len({key(NUMBER, value) for value in same}) == 1
    assert (
        len({key(NUMBER, value) for value in [0, 0.0, -0.0, Decimal("-0.00"), Decimal("0E9")]}) == 1
    )


@given(instants, instants, st.integers(-1439, 1439))
def test_instants_sort_by_time_in_any_offset(one: datetime, other: datetime, minutes: int) -> None:
    other_zone = timezone(timedelta(minutes=minutes))
    try:
        shifted = one.astimezone(other_zone).isoformat()
    except OverflowError:
        shifted = one.isoformat()

    assert parse_instant(shifted) == one
    assert (key(TIME, shifted) < key(TIME, other.isoformat())) == (one < other)
    assert key(TIME, shifted) == key(TIME, one)


@given(days, days)
def test_dates_sort_as_dates(one: object, other: object) -> None:
    assert (key(DATE, str(one)) < key(DATE, str(other))) == (str(one) < str(other))
    assert key(DATE, str(one)) == key(DATE, one) == key(DATE, parse_instant(str(one)))


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_strings_sort_by_code_point(one: str, other: str) -> None:
    assert (key(STRING, one) < key(STRING, other)) == (one < other)


@given(st.text(max_size=400))
@example("a" * 255 + "é")
@example("𐀀" * 65)
def test_truncation_keeps_complete_code_points(text: str) -> None:
    truncated = truncate_text(text)

    assert text.startswith(truncated)
    assert len(truncated.encode()) <= INDEXED_TEXT_BYTES
    if truncated != text:
        assert len(text[: len(truncated) + 1].encode()) > INDEXED_TEXT_BYTES


def test_key_length_is_limited() -> None:
    long: list[tuple[Field, object]] = [
        (STRING, "é" * 10_000),
        (NUMBER, Decimal("-1." + "7" * 5_000)),
        (NUMBER, 10**100_000),
    ]
    assert all(len(key(field, value)) <= INDEXED_TEXT_BYTES + 1 for field, value in long)


@pytest.mark.parametrize("value", [None, "", [], {}, ["a"], float("nan"), float("inf"), b"a"])
def test_missing_and_nonscalar_values_have_no_key(value: object) -> None:
    assert sort_key(MIXED, value) is None


def test_values_of_several_types_have_one_order() -> None:
    ordered: list[object] = [False, True, -1, 2, "a", "b"]

    assert in_order(MIXED, [*reversed(ordered)], ordered)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (TIME, "yesterday"),
        (TIME, "Fri, 21 Nov 2025 08:00:00 +0000"),
        (TIME, "2026-11-21"),
        (TIME, "1899-12-31T23:59:59Z"),
        (DATE, "2026-11-21T08:00:00Z"),
        (DATE, "2101-01-01"),
    ],
)
def test_value_that_is_not_the_declared_time_has_no_order(field: Field, value: str) -> None:
    assert sort_key(field, value) is None


def test_integer_is_a_time_where_its_format_says_so() -> None:
    seconds = field({"type": "integer", "format": "unix-time"})

    assert declared_time(seconds, 1_763_712_000) == datetime(2025, 11, 21, 8, tzinfo=UTC)
    for value in (True, 1.5, "1763712000", 10**13, -(10**11)):
        assert declared_time(seconds, value) is None
    assert declared_time(NUMBER, 1_763_712_000) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T08:30:00Z", datetime(2026, 11, 21, 8, 30, tzinfo=UTC)),
        ("2026-11-21t08:30:00z", datetime(2026, 11, 21, 8, 30, tzinfo=UTC)),
        ("2026-11-21T08:30:00+02:00", datetime(2026, 11, 21, 6, 30, tzinfo=UTC)),
        ("2026-11-21T00:30:00.5+05:45", datetime(2026, 11, 20, 18, 45, 0, 500_000, tzinfo=UTC)),
        ("2026-11-21T08:30:00.123456789Z", datetime(2026, 11, 21, 8, 30, 0, 123_456, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2017-01-01T00:59:60.25+01:00", datetime(2017, 1, 1, tzinfo=UTC)),
    ],
)
def test_rfc_3339_is_parsed(text: str, moment: datetime) -> None:
    assert parse_instant(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-21T08:30:00",
        "2026-11-21 08:30:00Z",
        "2026-11-21T08:30Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T08:30:60Z",
        "9999-12-31T23:59:60Z",
        "2026-02-30",
        "2026-2-3",
        "20261121",
        "2026-W47-6",
        "0000-01-01",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٦-11-21",
        "2026-11-21\n",
        "2026-11-21T08:30:00+24:00",
        "2026-11-21T08:30:00.1234567890Z",
        1_763_713_800,
        None,
    ],
)
def test_other_values_are_no_instants(text: object) -> None:
    assert parse_instant(text) is None


@pytest.mark.parametrize(
    "value", [True, "5", None, float("nan"), float("-inf"), [], Decimal("nan")]
)
def test_other_values_are_no_numbers(value: object) -> None:
    assert to_number(value) is None


def test_numbers_are_exact_and_in_range_of_numeric() -> None:
    assert to_number(0.1) == Decimal("0.1")
    assert to_number(2**63) == 2**63
    assert to_number(10**60 + 1) == 10**60 + 1
    assert to_number(Decimal("1E+131071")) is not None
    assert to_number(Decimal("1E+131072")) is None
    assert to_number(Decimal("1E-16384")) is None
    assert to_number(Decimal("0E-99999")) == 0


def test_strings_and_booleans_are_indexed() -> None:
    assert [indexed_text(value) for value in ("", "a", True, False)] == ["", "a", "true", "false"]
    assert indexed_text(None) is indexed_text(5) is indexed_text(["a"]) is None
    assert indexed_text("\ud800" * 100) == "?" * 100


def test_field_text_joins_strings_of_a_list() -> None:
    assert field_text("a") == "a"
    assert field_text(["a", 5, "b"]) == "a\nb"
    assert field_text({"a": "b"}) == field_text(5) == field_text(None) == ""
