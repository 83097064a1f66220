"""read_record_field against a fake REST API."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import limits, record_ids
from evidence.page_cutter import json_size, wire_size
from mcp_adapter.rest import RestResponse
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, error_of, parsed_text, structured, text_of
from tests.scenarios import scenario
from tests.uris import field_window_uri

ID = "cin_work/messages:m1"


def rest_with(**data: object) -> FakeRest:
    return FakeRest(records=[("cin_work", "messages", "m1", {"id": "m1", **data})])


def read_to_end(fake: FakeRest, **extra: Any) -> str:
    """Read a field to its end by following the next arguments."""
    text, step = (
        "",
        {"tool": "read_record_field", "args": {"id": ID, "field_path": "body", **extra}},
    )
    while step:
        result = call(fake, step["tool"], **step["args"])
        output = parsed_text(result)
        assert wire_size(text_of(result)) <= limits.READ_BYTES
        assert json_size(structured(result)) <= limits.READ_BYTES
        text += output["window"]["text"]
        step = output.get("next", {})
    return text


@scenario("B8", "B11")
@pytest.mark.parametrize(
    "body",
    [
        "plain words " * 3_000,
        "日本語のメモ" * 3_000,
        "😀👩‍👩‍👧‍👦" * 2_000,
        '{"quoted": "\\n"}' * 2_000,
        "\u202e\u200b\U000e0041" * 2_000,
        "",
        "x",
    ],
)
def test_window_of_any_text_fits_the_budget(body: str) -> None:
    assert read_to_end(rest_with(body=body)) == body


@settings(max_examples=25, deadline=None)
@given(body=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9_000))
def test_following_next_reads_each_character_once(body: str) -> None:
    assert read_to_end(rest_with(body=body), limit_chars=limits.WINDOW_MAX_CHARS) == body


def test_previous_ends_where_window_begins() -> None:
    fake = rest_with(body="".join(chr(0x4E00 + n) for n in range(4_000)))

    second = parsed_text(
        call(fake, "read_record_field", id=ID, field_path="body", offset_chars=1_500)
    )
    step = second["previous"]
    first = parsed_text(call(fake, step["tool"], **step["args"]))

    assert first["window"]["end_chars"] == second["window"]["start_chars"]


@pytest.mark.parametrize(
    ("selectors", "param"),
    [
        ({"offset_chars": 1, "q": "x"}, "q"),
        ({"cursor": "5", "offset_chars": 1}, "offset_chars"),
        ({"cursor": "five"}, "cursor"),
        ({"cursor": "-1"}, "cursor"),
        ({"occurrence": 2}, "occurrence"),
        ({"before_chars": 2, "offset_chars": 3}, "before_chars"),
    ],
)
def test_conflicting_selectors_are_refused_before_reading(
    selectors: dict[str, Any], param: str
) -> None:
    fake = rest_with(body="x")

    error = error_of(call(fake, "read_record_field", id=ID, field_path="body", **selectors))

    assert error["code"] == "invalid_field_window_selector"
    assert error["param"] == param
    assert fake.calls == []


def test_record_can_be_named_by_stream_and_record_id() -> None:
    fake = rest_with(body="words")

    output = parsed_text(
        call(fake, "read_record_field", connection_id="cin_work", stream="messages", record_id="m1",
             field_path="body")
    )  # fmt: skip

    assert output["record"]["id"] == ID
    assert output["window"]["text"] == "words"


def test_id_with_stream_and_record_id_is_refused() -> None:
    error = error_of(
        call(rest_with(body="x"), "read_record_field", id=ID, stream="messages", field_path="body")
    )

    assert error["code"] == "invalid_record_selector"


def test_cursor_is_an_offset() -> None:
    fake = rest_with(body="0123456789" * 10)
    first = parsed_text(call(fake, "read_record_field", id=ID, field_path="body", limit_chars=10))

    again = parsed_text(
        call(fake, "read_record_field", id=ID, field_path="body", limit_chars=10,
             cursor=first["window"]["next_cursor"])
    )  # fmt: skip

    assert again["window"]["start_chars"] == 10


def test_length_of_a_window_with_context_is_left_to_the_server() -> None:
    fake = rest_with(body="a lease")
    call(fake, "read_record_field", id=ID, field_path="body", q="lease", before_chars=2)

    assert {"field": "body", "q": "lease", "before_chars": "2"} in [
        {name: value for name, value in params.items() if name != "connection_id"}
        for _path, params in fake.calls
    ]


def test_nth_occurrence_is_returned_with_context() -> None:
    fake = rest_with(body="lease one, lease two, LEASE three")

    output = parsed_text(
        call(fake, "read_record_field", id=ID, field_path="body", q="lease", occurrence=3,
             before_chars=5, after_chars=6)
    )["window"]  # fmt: skip

    assert output["match_start_chars"] == 22
    assert "LEASE" in output["text"]


@scenario("B8")
def test_shortened_window_keeps_the_match() -> None:
    fake = rest_with(body=f"{'日' * 8_000}needle{'本' * 8_000}")

    result = call(fake, "read_record_field", id=ID, field_path="body", q="needle",
                  before_chars=8_000, after_chars=8_000, limit_chars=16_384)  # fmt: skip

    assert "needle" in parsed_text(result)["window"]["text"]
    assert wire_size(text_of(result)) <= limits.READ_BYTES


@scenario("B8")
def test_structured_field_is_read_as_json_or_by_pointer() -> None:
    people = [{"name": f"person {n}", "a/b": {"~": "odd"}} for n in range(3)]
    fake = rest_with(people=people)

    def read(path: str, **extra: Any) -> Any:
        return parsed_text(call(fake, "read_record_field", id=ID, field_path=path, **extra))[
            "window"
        ]

    assert json.loads(read("people")["text"]) == people
    assert read("/people/1/name")["text"] == "person 1"
    assert read("/people/2/a~1b/~0")["text"] == "odd"
    assert "person 2" in read("people", q="PERSON 2")["text"]


@pytest.mark.parametrize("path", ["/people/9/name", "/people/x", "/people/0/nothing"])
def test_pointer_to_missing_value_is_refused(path: str) -> None:
    fake = rest_with(people=[{"name": "x"}])

    error = error_of(call(fake, "read_record_field", id=ID, field_path=path))

    assert error["code"] == "field_not_found"


@scenario("B8")
def test_binary_blob_is_described_with_its_uri() -> None:
    fake = FakeRest(blobs={"b1": ("image/png", b"\x89PNG" * 4_000)})
    uri = record_ids.blob_uri("b1", connection_id="cin_work")

    output = parsed_text(call(fake, "read_record_field", id=uri))

    assert output["blob"]["media_type"] == "image/png"
    assert output["blob"]["total_bytes"] == 16_000
    assert output["window"] == {"text": None, "complete": False}
    assert uri in output["next"]


@scenario("B8", "B11")
def test_blob_reference_field_returns_the_blob() -> None:
    fake = FakeRest(
        records=[("cin_work", "files", "f1", {"blob_ref": {"blob_id": "b1", "media_type": "x/y"}})],
        blobs={"b1": ("application/pdf", b"%PDF" * 100)},
    )

    by_field = parsed_text(
        call(fake, "read_record_field", id="cin_work/files:f1", field_path="blob_ref")
    )
    step = parsed_text(call(fake, "fetch", id="cin_work/files:f1"))["metadata"]["blob"]["read"]
    by_document = parsed_text(call(fake, step["tool"], **step["args"]))

    assert by_field == by_document
    assert by_field["blob"]["media_type"] == "application/pdf"
    assert by_field["blob"]["total_bytes"] == 400


@scenario("B8", "B11")
def test_text_blob_is_read_in_ranges() -> None:
    content = "Zeile mit Umlaut äöü und 日本語\n".encode() * 1_000
    fake = FakeRest(blobs={"b1": ("text/plain; charset=utf-8", content)})
    step: Any = {"args": {"id": record_ids.blob_uri("b1", connection_id=None)}}
    text = ""
    while isinstance(step, dict):
        result = call(fake, "read_record_field", **step["args"])
        assert wire_size(text_of(result)) <= limits.READ_BYTES
        text += parsed_text(result)["window"]["text"]
        step = parsed_text(result).get("next")

    assert text == content.decode()


@scenario("B5")
def test_arguments_override_the_field_window_uri() -> None:
    fake = rest_with(body="0123456789")
    ref = record_ids.RecordRef("cin_work", "messages", "m1")
    uri = field_window_uri(ref, window={"field_path": "body", "offset_chars": 4})

    assert parsed_text(call(fake, "read_record_field", id=uri))["window"]["text"] == "456789"
    assert (
        parsed_text(call(fake, "read_record_field", id=uri, offset_chars=8))["window"]["text"]
        == "89"
    )


@pytest.mark.parametrize(
    "content", [b'"' * 20_000, b"\\" * 20_000, b"latin \xe9 text" * 500, b"\xff" * 3_000]
)
def test_invalid_utf8_text_blob_fits_the_budget(content: bytes) -> None:
    fake = FakeRest(blobs={"b1": ("text/plain", content)})

    result = call(fake, "read_record_field", id=record_ids.blob_uri("b1", connection_id=None))

    assert wire_size(text_of(result)) <= limits.READ_BYTES
    assert parsed_text(result)["window"]["text"]
    assert parsed_text(result)["window"]["complete"] is (
        len(content) <= parsed_text(result)["window"]["end"]
    )


def test_blob_is_read_from_server_without_ranges() -> None:
    answer = RestResponse(200, b"0123456789", {"Content-Type": "text/plain"})
    fake = FakeRest(answers={"/v1/blobs/b1": answer})

    output = parsed_text(
        call(
            fake,
            "read_record_field",
            id=record_ids.blob_uri("b1", connection_id=None),
            offset_chars=4,
        )
    )

    assert output["window"]["text"] == "456789"
    assert output["blob"]["total_bytes"] == 10


def test_field_window_uri_may_carry_a_cursor() -> None:
    ref = record_ids.RecordRef("cin_work", "messages", "m1")
    uri = field_window_uri(ref, window={"field_path": "body", "cursor": "4"})
    fake = FakeRest(records=[("cin_work", "messages", "m1", {"body": "0123456789"})])

    window = structured(call(fake, "read_record_field", id=uri))["window"]

    assert window["text"] == "456789"
