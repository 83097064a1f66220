"""read_record_field, against a resource server in memory."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import limits
from mcp_adapter import ids
from mcp_adapter.json_text import size, wire_size
from mcp_adapter.rest import RestAnswer
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, refusal, seen, structured, text_of
from tests.scenarios import scenario

ID = "cin_work/messages:m1"


def holding(**data: object) -> FakeRest:
    return FakeRest(records=[("cin_work", "messages", "m1", {"id": "m1", **data})])


def whole_text(fake: FakeRest, **more: Any) -> str:
    """Read from the beginning to the end by the ready-made arguments alone."""
    text, step = "", {"tool": "read_record_field", "args": {"id": ID, "field_path": "body", **more}}
    while step:
        result = call(fake, step["tool"], **step["args"])
        shown = seen(result)
        assert wire_size(text_of(result)) <= limits.READ_BYTES
        assert size(structured(result)) <= limits.READ_BYTES
        text += shown["window"]["text"]
        step = shown.get("next", {})
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
def test_any_text_is_read_to_its_end_within_the_budget(body: str) -> None:
    assert whole_text(holding(body=body)) == body


@settings(max_examples=25, deadline=None)
@given(body=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9_000))
def test_every_text_is_met_exactly_once(body: str) -> None:
    assert whole_text(holding(body=body), limit_chars=limits.WINDOW_MAX_CHARS) == body


def test_previous_reads_back_to_where_this_window_began() -> None:
    fake = holding(body="".join(chr(0x4E00 + n) for n in range(4_000)))

    second = seen(call(fake, "read_record_field", id=ID, field_path="body", offset_chars=1_500))
    step = second["previous"]
    first = seen(call(fake, step["tool"], **step["args"]))

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
def test_contradicting_selectors_are_refused_before_anything_is_read(
    selectors: dict[str, Any], param: str
) -> None:
    fake = holding(body="x")

    error = refusal(call(fake, "read_record_field", id=ID, field_path="body", **selectors))

    assert error["code"] == "invalid_field_window_selector"
    assert error["param"] == param
    assert fake.calls == []


def test_the_record_is_named_by_its_parts_as_well() -> None:
    fake = holding(body="words")

    shown = seen(
        call(fake, "read_record_field", connection_id="cin_work", stream="messages", record_id="m1",
             field_path="body")
    )  # fmt: skip

    assert shown["record"]["id"] == ID
    assert shown["window"]["text"] == "words"


def test_an_id_and_parts_together_are_refused() -> None:
    error = refusal(
        call(holding(body="x"), "read_record_field", id=ID, stream="messages", field_path="body")
    )

    assert error["code"] == "invalid_record_selector"


def test_a_cursor_is_the_number_that_was_shown() -> None:
    fake = holding(body="0123456789" * 10)
    first = seen(call(fake, "read_record_field", id=ID, field_path="body", limit_chars=10))

    again = seen(
        call(fake, "read_record_field", id=ID, field_path="body", limit_chars=10,
             cursor=first["window"]["next_cursor"])
    )  # fmt: skip

    assert again["window"]["start_chars"] == 10


def test_the_nth_occurrence_is_found_with_its_context() -> None:
    fake = holding(body="lease one, lease two, LEASE three")

    shown = seen(
        call(fake, "read_record_field", id=ID, field_path="body", q="lease", occurrence=3,
             before_chars=5, after_chars=6)
    )["window"]  # fmt: skip

    assert shown["match_start_chars"] == 22
    assert "LEASE" in shown["text"]


@scenario("B8")
def test_a_match_stays_inside_a_window_that_has_to_shrink() -> None:
    fake = holding(body=f"{'日' * 8_000}needle{'本' * 8_000}")

    result = call(fake, "read_record_field", id=ID, field_path="body", q="needle",
                  before_chars=8_000, after_chars=8_000, limit_chars=16_384)  # fmt: skip

    assert "needle" in seen(result)["window"]["text"]
    assert wire_size(text_of(result)) <= limits.READ_BYTES


@scenario("B8")
def test_a_structured_field_is_read_as_json_and_by_pointer() -> None:
    people = [{"name": f"person {n}", "a/b": {"~": "odd"}} for n in range(3)]
    fake = holding(people=people)

    def read(path: str, **more: Any) -> Any:
        return seen(call(fake, "read_record_field", id=ID, field_path=path, **more))["window"]

    assert json.loads(read("people")["text"]) == people
    assert read("/people/1/name")["text"] == "person 1"
    assert read("/people/2/a~1b/~0")["text"] == "odd"
    assert "person 2" in read("people", q="PERSON 2")["text"]


@pytest.mark.parametrize("path", ["/people/9/name", "/people/x", "/people/0/nothing"])
def test_a_pointer_to_nothing_is_refused(path: str) -> None:
    fake = holding(people=[{"name": "x"}])

    error = refusal(call(fake, "read_record_field", id=ID, field_path=path))

    assert error["code"] == "field_not_found"


@scenario("B8")
def test_binary_content_is_described_and_read_on_by_its_uri() -> None:
    fake = FakeRest(blobs={"b1": ("image/png", b"\x89PNG" * 4_000)})
    uri = ids.blob_uri("b1", connection_id="cin_work")

    shown = seen(call(fake, "read_record_field", id=uri))

    assert shown["blob"]["media_type"] == "image/png"
    assert shown["blob"]["total_bytes"] == 16_000
    assert shown["window"] == {"text": None, "complete": False}
    assert uri in shown["next"]


@scenario("B8", "B11")
def test_a_field_that_points_at_binary_content_leads_to_it() -> None:
    fake = FakeRest(
        records=[("cin_work", "files", "f1", {"blob_ref": {"blob_id": "b1", "media_type": "x/y"}})],
        blobs={"b1": ("application/pdf", b"%PDF" * 100)},
    )

    by_field = seen(call(fake, "read_record_field", id="cin_work/files:f1", field_path="blob_ref"))
    step = seen(call(fake, "fetch", id="cin_work/files:f1"))["metadata"]["blob"]["read"]
    by_document = seen(call(fake, step["tool"], **step["args"]))

    assert by_field == by_document
    assert by_field["blob"]["media_type"] == "application/pdf"
    assert by_field["blob"]["total_bytes"] == 400


@scenario("B8", "B11")
def test_a_text_blob_is_read_to_its_end_by_ranges() -> None:
    content = "Zeile mit Umlaut äöü und 日本語\n".encode() * 1_000
    fake = FakeRest(blobs={"b1": ("text/plain; charset=utf-8", content)})
    step: Any = {"args": {"id": ids.blob_uri("b1", connection_id=None)}}
    text = ""
    while isinstance(step, dict):
        result = call(fake, "read_record_field", **step["args"])
        assert wire_size(text_of(result)) <= limits.READ_BYTES
        text += seen(result)["window"]["text"]
        step = seen(result).get("next")

    assert text == content.decode()


@scenario("B5")
def test_arguments_come_before_what_a_field_window_uri_says() -> None:
    fake = holding(body="0123456789")
    ref = ids.RecordRef("cin_work", "messages", "m1")
    uri = ids.field_window_uri(ref, window={"field_path": "body", "offset_chars": 4})

    assert seen(call(fake, "read_record_field", id=uri))["window"]["text"] == "456789"
    assert seen(call(fake, "read_record_field", id=uri, offset_chars=8))["window"]["text"] == "89"


@pytest.mark.parametrize(
    "content", [b'"' * 20_000, b"\\" * 20_000, b"latin \xe9 text" * 500, b"\xff" * 3_000]
)
def test_any_bytes_that_call_themselves_text_are_shown_within_the_budget(content: bytes) -> None:
    fake = FakeRest(blobs={"b1": ("text/plain", content)})

    result = call(fake, "read_record_field", id=ids.blob_uri("b1", connection_id=None))

    assert wire_size(text_of(result)) <= limits.READ_BYTES
    assert seen(result)["window"]["text"]
    assert seen(result)["window"]["complete"] is (len(content) <= seen(result)["window"]["end"])


def test_a_server_without_ranges_is_read_all_the_same() -> None:
    answer = RestAnswer(200, b"0123456789", {"Content-Type": "text/plain"})
    fake = FakeRest(answers={"/v1/blobs/b1": answer})

    shown = seen(
        call(fake, "read_record_field", id=ids.blob_uri("b1", connection_id=None), offset_chars=4)
    )

    assert shown["window"]["text"] == "456789"
    assert shown["blob"]["total_bytes"] == 10
