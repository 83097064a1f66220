"""Records are validated, and errors never contain record content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.declarations.record_validation import (
    InvalidRecordError,
    RecordValidator,
    is_too_deep,
    record_key,
)
from tests.declarations.documents import MOMENT, TEXT, Document, stream

MESSAGES = stream()
VALIDATOR = RecordValidator(MESSAGES)
COMPOUND = stream(primary_key=["thread_id", "size"])


def record(**members: object) -> Document:
    return {"id": "m1", "sent_at": "2026-11-21T08:00:00Z", "subject": "Lease", **members}


def nested(levels: int) -> object:
    value: object = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def test_valid_record_has_no_error() -> None:
    assert VALIDATOR.find_error(record()) is None
    assert (
        VALIDATOR.find_error(record(size=None, labels=["a"], day="2026-11-21", other=nested(50)))
        is None
    )


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"sent_at": "2026-11-21T08:00:00Z"}, "$.id: required"),
        (record(id=5), "$.id: type"),
        (record(size="secret"), "$.size: type"),
        (record(labels=["a", 1]), "$.labels[*]: type"),
        (record(headers={"secret": 1}), "$.headers.*: type"),
        (record(other=nested(64)), "$: depth"),
        (record(other=nested(100_000)), "$: depth"),
        (["secret"], "$: type"),
        (None, "$: type"),
    ],
)
def test_error_contains_declared_path_and_reason_only(data: object, error: str) -> None:
    assert VALIDATOR.find_error(data) == error


def test_error_path_contains_quoted_names_behind_references() -> None:
    schema = {
        "type": "object",
        "$defs": {"part": {"properties": {"of speech": {"enum": ["noun"]}}}},
        "properties": {"id": TEXT, "parts": {"items": {"$ref": "#/$defs/part"}}},
    }
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.find_error({"parts": [{"of speech": "secret"}]}) == (
        '$.parts[*]["of speech"]: enum'
    )


@pytest.mark.parametrize(
    ("data", "unparsed"),
    [
        (record(sent_at="secret"), ["sent_at"]),
        (record(sent_at="2026-11-21"), ["sent_at"]),
        (record(sent_at="2026-11-21T08:00:00"), ["sent_at"]),
        (record(sent_at="0001-01-01T00:00:00Z", day="2026-11-21T08:00:00Z"), ["sent_at", "day"]),
        (record(day="2026-02-30"), ["day"]),
        (record(sent_at=None, day=""), []),
        (record(day="2026-02-28"), []),
    ],
)
def test_times_that_do_not_parse_are_valid_and_named(data: Document, unparsed: list[str]) -> None:
    assert VALIDATOR.find_error(data) is None or data["sent_at"] is None
    assert VALIDATOR.find_unparsed_times(data) == unparsed


def test_other_formats_are_annotations() -> None:
    schema = {"type": "object", "properties": {"id": TEXT, "mail": {**TEXT, "format": "email"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.find_error({"mail": "undisclosed recipients"}) is None


def test_surrogate_in_validated_string_is_an_error() -> None:
    schema = {"type": "object", "properties": {"id": {**TEXT, "pattern": "^m"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.find_error({"id": "\ud800"}) == "$: encoding"


def test_catastrophic_backtracking_is_an_error() -> None:
    schema = {"type": "object", "properties": {"id": {**TEXT, "pattern": "^(?=a)(a+)+$"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.find_error({"id": "a" * 100}) is None
    refused = validator.find_error({"id": "a" * 100 + "b"})
    assert refused is not None
    assert refused.startswith("$.id: ")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from([*MESSAGES.fields, "x"]), inner)
        ),
    )
)
def test_validation_never_raises(data: Any) -> None:
    VALIDATOR.find_error(data)
    VALIDATOR.find_error(record(labels=data, headers=data, body=data, sent_at=data, other=data))


@pytest.mark.parametrize(
    ("key", "canonical"),
    [
        ("m1", "m1"),
        (["m1"], "m1"),
        (None, "m1"),
    ],
)
def test_simple_key_is_its_string(key: object, canonical: str) -> None:
    assert record_key(MESSAGES, record(), key) == canonical


@pytest.mark.parametrize("key", ["a/b", "..", "\\", "a b", "é" * 100, "<script>", "\u202e", "[]"])
def test_keys_are_not_normalized(key: str) -> None:
    assert record_key(MESSAGES, {}, key) == key


def test_number_key_has_json_form() -> None:
    assert record_key(MESSAGES, {"id": 42}, "42") == "42"
    assert record_key(MESSAGES, {"id": 42}, 42) == "42"
    assert record_key(MESSAGES, {"id": True}, None) == "true"


def test_compound_key_is_minified_array_of_strings() -> None:
    data = {"thread_id": 'a"é', "size": 7}

    assert record_key(COMPOUND, data, ['a"é', "7"]) == '["a\\"é","7"]'
    assert record_key(COMPOUND, data, ['a"é', 7]) == '["a\\"é","7"]'
    assert record_key(COMPOUND, data, None) == '["a\\"é","7"]'


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (["a", "7"], "$.data.size"),
        (["b", "8"], "$.data.thread_id"),
        (["8", "a"], "$.data.thread_id"),
    ],
)
def test_key_that_differs_from_fields_is_refused(key: list[str], path: str) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        record_key(COMPOUND, {"thread_id": "a", "size": 8}, key)

    assert (refused.value.code, refused.value.path) == ("invalid_record_identity", path)


def test_missing_primary_key_field_is_accepted() -> None:
    assert record_key(COMPOUND, {"thread_id": None}, ["a", "b"]) == '["a","b"]'


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a\nb",
        "\0",
        "\x7f",
        "\x85",
        "\ud800",
        "x" * 201,
        "é" * 101,
        ["a", "b"],
        [],
        {},
        [None],
        None,
    ],
)
def test_unaddressable_key_is_refused(key: object) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        record_key(MESSAGES, {}, key)

    assert (refused.value.code, refused.value.path) == ("invalid_record_key", "$.key")


def test_length_of_compound_key_is_limited() -> None:
    fits = ["x" * 97, "x" * 96]

    assert len(record_key(COMPOUND, {}, fits)) == 200
    with pytest.raises(InvalidRecordError):
        record_key(COMPOUND, {}, ["x" * 97, "x" * 97])
    with pytest.raises(InvalidRecordError):
        record_key(COMPOUND, {}, "not an array")


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20),
        min_size=2,
        max_size=2,
    )
)
def test_compound_key_parses_to_its_parts(parts: list[str]) -> None:
    assert json.loads(record_key(COMPOUND, {}, parts)) == parts


def test_depth_counts_arrays_and_objects() -> None:
    assert not is_too_deep(nested(64))
    assert is_too_deep(nested(65))
    assert not is_too_deep("text")


def test_format_without_type_is_not_checked() -> None:
    schema = {"type": "object", "properties": {"id": TEXT, "a": MOMENT, "b": {"format": "date"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.find_unparsed_times({"b": "whenever"}) == []
    assert validator.find_unparsed_times({"a": "whenever"}) == ["a"]
