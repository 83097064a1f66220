"""fetch against a fake REST API."""

import base64

import pytest

from evidence import limits
from evidence.page_cutter import json_size, wire_size
from mcp_adapter.rest import RestResponse
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, call, parsed_text, structured, text_of
from tests.scenarios import scenario

ID = "cin_work/messages:m1"


def rest_with(**data: object) -> FakeRest:
    return FakeRest(records=[("cin_work", "messages", "m1", {"id": "m1", **data})])


@scenario("C17")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "data",
    [
        {"subject": "S", "body": "text " * 50},
        {"subject": "S"},
        {"body": "日本語" * 5_000},
        {"body": '"\\\n' * 5_000},
        {"body": "x" * 1_000_000, **{f"f{n}": "y" * 50 for n in range(300)}},
        {f"f{n}": n for n in range(3_000)},
        {"deep": [[[[[[1] * 500] * 5]]]]},
    ],
)
def test_document_is_equal_in_both_channels_and_fits_the_budget(
    era: str, data: dict[str, object]
) -> None:
    result = call(rest_with(**data), "fetch", era=era, id=ID)

    document = structured(result)
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert parsed_text(result) == document
    assert wire_size(text_of(result)) <= limits.READ_BYTES
    assert json_size(document) <= limits.READ_BYTES
    assert document["text"]


def test_long_text_starts_at_beginning_with_next_call() -> None:
    body = "".join(f"line {n}\n" for n in range(5_000))
    fake = rest_with(subject="S", body=body)

    document = structured(call(fake, "fetch", id=ID))
    metadata = document["metadata"]
    onward = structured(call(fake, metadata["next"]["tool"], **metadata["next"]["args"]))

    assert body.startswith(document["text"])
    assert metadata["complete"] is False
    assert (metadata["end_chars"], metadata["total_chars"]) == (len(document["text"]), len(body))
    assert body.startswith(document["text"] + onward["window"]["text"])


def test_large_field_next_to_text_is_named_with_next_call() -> None:
    fake = rest_with(body="short", transcript="t" * 50_000)

    document = structured(call(fake, "fetch", id=ID))

    assert document["text"].startswith("short") or document["text"].startswith("t")
    assert document["metadata"]["complete"] is False
    step = document["metadata"]["next"]
    window = structured(call(fake, step["tool"], **step["args"]))["window"]
    assert window["text"].startswith("t")


def test_max_bytes_changes_the_size_of_the_document() -> None:
    fake = rest_with(body="word " * 10_000)

    sizes = [
        len(text_of(call(fake, "fetch", id=ID, **extra)))
        for extra in ({"max_bytes": 4_000}, {}, {"max_bytes": 50_000})
    ]

    assert 2_000 < sizes[0] <= 4_000 < sizes[1] <= 8_000 < sizes[2] <= 50_000


@scenario("C18")
def test_document_without_text_field_shows_the_fields_as_lines() -> None:
    fake = rest_with(subject="S", body="hidden words", price=7)

    result = call(fake, "fetch", id=ID, fields=["subject", "price"])

    assert structured(result)["text"] == "subject: S\nprice: 7"
    assert "hidden" not in text_of(result)
    assert fake.calls[0][1]["fields"] == "subject,price"


def test_document_url_is_absolute_and_encoded() -> None:
    fake = FakeRest(records=[("cin_work", "messages", "a/b c", {"body": "x"})])
    (hit,) = parsed_text(call(fake, "search", q="x"))["results"]

    document = structured(call(fake, "fetch", id=hit["id"]))

    assert document["url"] == "https://records.example/records/cin_work/messages/a%2Fb%20c"


def test_expanded_records_show_their_handles() -> None:
    fake = rest_with(body="x")
    fake.expand["messages"] = [{"name": "files"}]
    detail = fake._detail("messages", "m1", {})
    assert isinstance(detail.body, dict)
    child = {"object": "record", "id": "f1", "stream": "files", "connection_id": "cin_work",
             "data": {"name": "lease.pdf"}}  # fmt: skip
    detail.body["expanded"] = {
        "files": {"object": "list", "data": [child], "has_more": True},
        "thread": None,
    }
    fake.answers["/v1/streams/messages/records/m1"] = detail

    document = structured(call(fake, "fetch", id=ID, expand=["files"]))

    assert document["metadata"]["expanded"] == {
        "files": {
            "records": [{"id": "cin_work/files:f1", "data": {"name": "lease.pdf"}}],
            "has_more": True,
        },
        "thread": None,
    }


ENCODED = base64.b64encode(bytes(range(256)) * 40).decode()


@pytest.mark.parametrize("field", ["thumbnail", "content"])
def test_base64_is_not_the_document(field: str) -> None:
    plain = rest_with(**{field: ENCODED, "note_text": "A plain sentence. " * 20})

    assert structured(call(plain, "fetch", id=ID))["text"].startswith("A plain sentence.")
    alone = structured(call(rest_with(**{field: ENCODED}), "fetch", id=ID))
    assert alone["metadata"].get("text_field") is None


def test_declared_text_is_the_document() -> None:
    data = {"id": "m1", "summary": "In short.", "transcript": "Said at length."}
    body = {"object": "record", "id": "m1", "stream": "messages", "connection_id": "cin_work"}
    record = {**body, "data": data, "text_field": "transcript"}
    fake = FakeRest(answers={"/v1/streams/messages/records/m1": RestResponse(200, record)})

    assert structured(call(fake, "fetch", id=ID))["text"] == "Said at length."
