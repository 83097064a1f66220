"""A record is held against its stream, and told off without a word of what it says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.declarations.record_validation import (
    RecordFault,
    RecordValidator,
    record_key,
    too_deep,
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


def test_a_record_that_matches_has_no_fault() -> None:
    assert VALIDATOR.check(record()) is None
    assert (
        VALIDATOR.check(record(size=None, labels=["a"], day="2026-11-21", other=nested(50))) is None
    )


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"sent_at": "2026-11-21T08:00:00Z"}, "$.id: required"),
        (record(id=5), "$.id: type"),
        (record(size="secret"), "$.size: type"),
        (record(labels=["a", 1]), "$.labels[*]: type"),
        (record(headers={"secret": 1}), "$.headers.*: type"),
        (record(sent_at="secret"), "$.sent_at: format"),
        (record(sent_at="2026-11-21"), "$.sent_at: format"),
        (record(sent_at="2026-11-21T08:00:00"), "$.sent_at: format"),
        (record(day="2026-11-21T08:00:00Z"), "$.day: format"),
        (record(day="2026-02-30"), "$.day: format"),
        (record(other=nested(64)), "$: depth"),
        (record(other=nested(100_000)), "$: depth"),
        (["secret"], "$: type"),
        (None, "$: type"),
    ],
)
def test_a_fault_names_the_declared_path_and_the_reason_alone(data: object, fault: str) -> None:
    assert VALIDATOR.check(data) == fault


def test_the_path_goes_through_references_and_odd_names() -> None:
    schema = {
        "type": "object",
        "$defs": {"part": {"properties": {"of speech": {"enum": ["noun"]}}}},
        "properties": {"id": TEXT, "parts": {"items": {"$ref": "#/$defs/part"}}},
    }
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.check({"parts": [{"of speech": "secret"}]}) == (
        '$.parts[*]["of speech"]: enum'
    )


def test_other_formats_are_annotations() -> None:
    schema = {"type": "object", "properties": {"id": TEXT, "mail": {**TEXT, "format": "email"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.check({"mail": "undisclosed recipients"}) is None


def test_half_a_surrogate_pair_is_refused_where_the_schema_looks_at_it() -> None:
    schema = {"type": "object", "properties": {"id": {**TEXT, "pattern": "^m"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.check({"id": "\ud800"}) == "$: encoding"


def test_a_pattern_that_explodes_is_a_refusal_and_not_a_wait() -> None:
    schema = {"type": "object", "properties": {"id": {**TEXT, "pattern": "^(?=a)(a+)+$"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.check({"id": "a" * 100}) is None
    refused = validator.check({"id": "a" * 100 + "b"})
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
def test_no_json_makes_it_raise(data: Any) -> None:
    VALIDATOR.check(data)
    VALIDATOR.check(record(labels=data, headers=data, body=data, sent_at=data, other=data))


@pytest.mark.parametrize(
    ("key", "canonical"),
    [
        ("m1", "m1"),
        (["m1"], "m1"),
        (None, "m1"),
    ],
)
def test_a_simple_key_is_its_string(key: object, canonical: str) -> None:
    assert record_key(MESSAGES, record(), key) == canonical


@pytest.mark.parametrize("key", ["a/b", "..", "\\", "a b", "é" * 100, "<script>", "\u202e", "[]"])
def test_keys_are_what_the_source_says_they_are(key: str) -> None:
    assert record_key(MESSAGES, {}, key) == key


def test_a_number_is_a_key_in_its_json_form() -> None:
    assert record_key(MESSAGES, {"id": 42}, "42") == "42"
    assert record_key(MESSAGES, {"id": 42}, 42) == "42"
    assert record_key(MESSAGES, {"id": True}, None) == "true"


def test_a_compound_key_is_the_minified_array_of_its_parts_as_strings() -> None:
    data = {"thread_id": 'a"é', "size": 7}

    assert record_key(COMPOUND, data, ['a"é', "7"]) == '["a\\"é","7"]'
    assert record_key(COMPOUND, data, ['a"é', 7]) == '["a\\"é","7"]'
    assert record_key(COMPOUND, data, None) == '["a\\"é","7"]'


@pytest.mark.parametrize(
    ("key", "at"),
    [
        (["a", "7"], "$.data.size"),
        (["b", "8"], "$.data.thread_id"),
        (["8", "a"], "$.data.thread_id"),
    ],
)
def test_fields_that_say_another_key_are_refused(key: list[str], at: str) -> None:
    with pytest.raises(RecordFault) as refused:
        record_key(COMPOUND, {"thread_id": "a", "size": 8}, key)

    assert (refused.value.code, refused.value.at) == ("invalid_record_identity", at)


def test_a_field_that_says_nothing_does_not_disagree() -> None:
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
def test_a_key_that_could_not_be_addressed_is_refused(key: object) -> None:
    with pytest.raises(RecordFault) as refused:
        record_key(MESSAGES, {}, key)

    assert (refused.value.code, refused.value.at) == ("invalid_record_key", "$.key")


def test_a_compound_key_counts_as_it_is_written() -> None:
    fits = ["x" * 97, "x" * 96]

    assert len(record_key(COMPOUND, {}, fits)) == 200
    with pytest.raises(RecordFault):
        record_key(COMPOUND, {}, ["x" * 97, "x" * 97])
    with pytest.raises(RecordFault):
        record_key(COMPOUND, {}, "not an array")


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20),
        min_size=2,
        max_size=2,
    )
)
def test_a_compound_key_reads_back_as_its_parts(parts: list[str]) -> None:
    assert json.loads(record_key(COMPOUND, {}, parts)) == parts


def test_depth_counts_arrays_and_objects() -> None:
    assert not too_deep(nested(64))
    assert too_deep(nested(65))
    assert not too_deep("text")


def test_a_format_without_a_type_asserts_nothing() -> None:
    schema = {"type": "object", "properties": {"id": TEXT, "a": MOMENT, "b": {"format": "date"}}}
    validator = RecordValidator(stream(schema=schema, query={}, views=[], cursor_field=None))

    assert validator.check({"b": "whenever"}) is None
    assert validator.check({"a": "whenever"}) == "$.a: format"
