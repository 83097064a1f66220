"""Section B through the real endpoint: from a hit to its evidence and the complete text."""

import json
import re
from typing import Any

import pytest

from evidence.record_ids import RecordRef
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured, text_of
from tests.scenarios import scenario
from tests.uris import field_window_uri
from tests.world import BANK, CHAT, MAIL, PERSONAL, WORK, World, mail

pytestmark = pytest.mark.django_db
LEASE = f"{PERSONAL}/messages:m1"
LONG = "One two three four five six seven. " * 2_000


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("B1", "B2")
def test_text_shows_match_in_context_and_how_to_read_around_it(bearer: str) -> None:
    (hit,) = parsed_text(real.call(bearer, "search", q="euros"))["results"]

    before, after = re.split("<mark>euros</mark>", hit["match"])
    window = structured(
        real.call(bearer, "read_record_field", id=hit["id"], field_path=hit["field"], q="euros")
    )["window"]

    assert len(before.split()) >= 3
    assert len(after.split()) >= 3
    assert "2,340 euros" in window["text"]
    assert window["text"][window["match_start_chars"] : window["match_end_chars"]] == "euros"


@scenario("B1", "B2")
@pytest.mark.parametrize("after", ["", " and so on" * 60])
def test_excerpt_offsets_match_deep_in_field(world: World, bearer: str, after: str) -> None:
    text = f"{'Once upon a time ' * 60}there sat a quokka by the lake{after}"
    world.put((CHAT, "messages", {"id": "c9", "text": text, "sent_at": "2026-03-01T00:00:00Z"}))

    result = real.call(bearer, "search", q="quokka")

    (hit,) = parsed_text(result)["results"]
    for excerpt in (hit["match"], structured(result)["results"][0]["snippet"]):
        assert "sat a <mark>quokka</mark> by the lake" in excerpt
        assert excerpt.replace("<mark>", "").replace("</mark>", "").strip("…") in text


def test_both_channels_name_absent_words_and_other_forms(bearer: str) -> None:
    result = real.call(bearer, "search", q="leasing unicorn")

    text, data = parsed_text(result), structured(result)
    assert text["meta"]["absent_words"] == ["unicorn"]
    assert data["data"]["meta"]["absent_words"] == ["unicorn"]
    for hit in (*text["results"], *data["results"]):
        assert hit["word_forms"]["unicorn"] == []
        assert {word.lower() for word in hit["word_forms"]["leasing"]} == {"lease"}


def test_exact_match_finds_no_other_form(bearer: str) -> None:
    exact = parsed_text(real.call(bearer, "search", q="leasing", match="exact"))
    quoted = parsed_text(real.call(bearer, "search", q='"=leasing"'))

    assert exact["results"] == quoted["results"] == []
    assert exact["meta"]["absent_words"] == quoted["meta"]["absent_words"] == ["leasing"]


@scenario("B2")
def test_field_equal_to_the_match_is_shown_unchanged(world: World, bearer: str) -> None:
    world.put((CHAT, "messages", {"id": "c9", "text": "Quokka", "sent_at": "2026-03-01T00:00:00Z"}))

    (hit,) = parsed_text(real.call(bearer, "search", q="quokka"))["results"]

    assert hit["match"] == "<mark>Quokka</mark>"


@scenario("B5")
def test_field_window_uri_is_accepted_by_tool_and_resource(bearer: str) -> None:
    uri = field_window_uri(
        RecordRef(PERSONAL, "messages", "m1"),
        window={"field_path": "body_text", "offset_chars": 5, "limit_chars": 6},
    )

    window = structured(real.call(bearer, "read_record_field", id=uri))
    contents = [
        real.ask(bearer, lambda client: client.read_resource(uri), way=way, era=era).contents
        for way, era in real.SURFACES
    ]

    assert window["window"]["text"] == "Alice,"
    assert [(item.text, item.mime_type) for (item,) in contents] == [("Alice,", "text/plain")] * 4


@scenario("B6")
def test_window_continues_by_arguments_without_uri(bearer: str) -> None:
    first = real.call(
        bearer,
        "read_record_field",
        id=LEASE,
        field_path="body_text",
        offset_chars=10,
        limit_chars=20,
    )
    output = parsed_text(first)

    onward = parsed_text(real.call(bearer, output["next"]["tool"], **output["next"]["args"]))
    back = parsed_text(real.call(bearer, output["previous"]["tool"], **output["previous"]["args"]))

    assert (
        back["window"]["text"] + output["window"]["text"] + onward["window"]["text"]
        == ("Dear Alice, we signed the lease for Lindenstraße 12"[: onward["window"]["end_chars"]])
    )
    assert output["window"]["start_chars"] == 10
    assert output["window"]["has_more"]
    assert "pdpp://" not in text_of(first)
    assert "pdpp://" not in json.dumps(structured(first))


@scenario("B6")
def test_match_has_offsets_in_the_field(bearer: str) -> None:
    window = parsed_text(
        real.call(bearer, "read_record_field", id=LEASE, field_path="body_text", q="lease",
                  before_chars=8, after_chars=4)
    )["window"]  # fmt: skip

    start = window["match_start_chars"] - window["start_chars"]
    assert window["text"][start : start + 5] == "lease"
    assert len(window["text"]) <= 8 + 5 + 4 + 32


@scenario("B7")
def test_small_field_is_complete_and_inline(bearer: str) -> None:
    result = real.call(bearer, "read_record_field", id=LEASE, field_path="subject")

    window = parsed_text(result)["window"]
    assert window["text"] == "Lease signed"
    assert (window["start_chars"], window["end_chars"], window["total_chars"]) == (0, 12, 12)
    assert window["complete"] is True
    assert (window["next_cursor"], window["previous_cursor"]) == (None, None)
    assert [block.type for block in result.content] == ["text"]


@scenario("B8", "B11")
def test_large_field_is_readable_to_its_end(world: World, bearer: str) -> None:
    world.put((WORK, "messages", {"id": "long", "subject": "Long", "body_text": LONG}))
    document = structured(real.call(bearer, "fetch", id=f"{WORK}/messages:long"))
    assert document["metadata"]["complete"] is False
    assert document["metadata"]["total_chars"] == len(LONG)

    text, step = document["text"], document["metadata"]["next"]
    while step is not None:
        step["args"]["max_bytes"] = 50_000
        window = structured(real.ask(bearer, _calling(step)))
        text += window["window"]["text"]
        step = window.get("next")

    assert text == LONG


def _calling(step: dict[str, Any]) -> Any:
    return lambda client: client.call_tool(step["tool"], step["args"])


@scenario("B8")
def test_non_text_field_is_read_as_json(bearer: str) -> None:
    result = structured(real.call(bearer, "read_record_field", id=LEASE, field_path="labels"))
    member = structured(real.call(bearer, "read_record_field", id=LEASE, field_path="/labels/0"))

    assert result["field"] == {
        "path": "labels",
        "type": "array",
        "text_like": False,
        "media_type": "application/json",
        "size_bytes": 8,
        "item_count": 1,
    }
    assert json.loads(result["window"]["text"]) == ["home"]
    assert member["window"]["text"] == "home"


@scenario("B8")
def test_cut_fields_of_large_records_are_named(world: World, bearer: str) -> None:
    world.put((WORK, "messages", {"id": "long", "received_at": "2026-05-01T00:00:00Z",
                                  "subject": "Long", "body_text": LONG}))  # fmt: skip

    result = real.call(bearer, "query_records", stream="messages", connection_id=WORK)

    (record, *_) = parsed_text(result)["records"]
    (full, *_) = structured(result)["data"]["data"]
    assert record["cut"] == ["body_text"]
    assert full["data"]["body_text"]["truncated"] is True
    assert full["data"]["body_text"]["total_chars"] == len(LONG)
    step = full["data"]["body_text"]["read"]
    assert step == {
        "tool": "read_record_field",
        "args": {"id": record["id"], "field_path": "body_text"},
    }
    assert not real.call(bearer, step["tool"], **step["args"]).is_error


@scenario("B9")
def test_rest_search_hit_has_evidence(world: World) -> None:
    (hit,) = world.get("/v1/search", who="dora", q="euros").body["data"]

    (evidence, *_) = hit["evidence_excerpts"]
    assert evidence["field_path"] == "body_text"
    assert "<mark>euros</mark>" in evidence["preview_text"]
    assert isinstance(evidence["truncated"], bool)
    assert evidence["read"]["route"].endswith("/field-window")


@scenario("B11")
def test_further_pages_and_export_are_named(bearer: str) -> None:
    output = parsed_text(
        real.call(bearer, "query_records", stream="transactions", connection_id=BANK, limit=2,
                  fields=["id", "name"])
    )  # fmt: skip

    assert output["export"] == f"pdpp export transactions --connection {BANK} --fields id,name"
    rest = parsed_text(
        real.ask(
            bearer,
            lambda client: client.call_tool(
                "query_records",
                {"stream": "transactions", "connection_id": BANK, "limit": 2,
                 "fields": ["id", "name"], "cursor": output["next_cursor"]},
            ),
        )
    )  # fmt: skip
    assert [item["id"] for item in output["records"] + rest["records"]] == [
        f"{BANK}/transactions:{key}" for key in ("b3", "b2", "b1")
    ]
    assert rest["has_more"] is False


def test_field_not_granted_is_refused(world: World) -> None:
    error = error_of(
        real.call(world.tokens["bob@mcp"], "read_record_field", id=LEASE, field_path="from_email")
    )

    assert error["code"] == "field_not_granted"


def test_a_message_without_title_names_its_conversation(world: World) -> None:
    document = json.loads(json.dumps(MAIL)) | {"version": "1.1.0"}
    properties = document["streams"][0]["schema"]["properties"]
    properties["subject"] = {"type": ["string", "null"]}
    properties["thread_id"]["x_pdpp_role"] = "place"
    world.declare(document)
    world.put(
        (
            PERSONAL,
            "messages",
            mail("z1", "2026-05-01T10:00:00Z", thread_id="Family", body_text="quokka"),
        )
    )

    [hit] = structured(real.call(world.tokens["bob@mcp"], "search", q="quokka"))["results"]

    assert hit["title"] == "Personal mail / Family"
    [shown] = world.get("/v1/search", q="quokka").body["data"]
    assert shown["place"] == "Family"
