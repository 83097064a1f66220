"""Section B through the real endpoint: from a hint to the evidence and on to the whole."""

import json
import re
from typing import Any

import pytest

from mcp_adapter.ids import RecordRef, field_window_uri
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import refusal, seen, structured, text_of
from tests.scenarios import scenario
from tests.world import BANK, CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db
LEASE = f"{PERSONAL}/messages:m1"
LONG = "One two three four five six seven. " * 2_000


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("B1", "B2")
def test_the_text_shows_the_match_among_its_words_and_how_to_read_around_it(bearer: str) -> None:
    (hit,) = seen(real.call(bearer, "search", q="euros"))["results"]

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
def test_what_is_marked_far_inside_a_field_is_the_match(
    world: World, bearer: str, after: str
) -> None:
    text = f"{'Once upon a time ' * 60}there sat a quokka by the lake{after}"
    world.put((CHAT, "messages", {"id": "c9", "text": text, "sent_at": "2026-03-01T00:00:00Z"}))

    result = real.call(bearer, "search", q="quokka")

    (hit,) = seen(result)["results"]
    for shown in (hit["match"], structured(result)["results"][0]["snippet"]):
        assert "sat a <mark>quokka</mark> by the lake" in shown
        assert shown.replace("<mark>", "").replace("</mark>", "").strip("…") in text


@scenario("B2")
def test_a_field_that_is_nothing_but_the_match_is_shown_as_it_is(world: World, bearer: str) -> None:
    world.put((CHAT, "messages", {"id": "c9", "text": "Quokka", "sent_at": "2026-03-01T00:00:00Z"}))

    (hit,) = seen(real.call(bearer, "search", q="quokka"))["results"]

    assert hit["match"] == "<mark>Quokka</mark>"


@scenario("B5")
def test_a_field_window_uri_is_readable_and_accepted(bearer: str) -> None:
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
    assert [(each.text, each.mime_type) for (each,) in contents] == [("Alice,", "text/plain")] * 4


@scenario("B6")
def test_an_ordinary_window_reads_on_by_arguments_and_shows_no_uri(bearer: str) -> None:
    first = real.call(
        bearer,
        "read_record_field",
        id=LEASE,
        field_path="body_text",
        offset_chars=10,
        limit_chars=20,
    )
    shown = seen(first)

    onward = seen(real.call(bearer, shown["next"]["tool"], **shown["next"]["args"]))
    back = seen(real.call(bearer, shown["previous"]["tool"], **shown["previous"]["args"]))

    assert (
        back["window"]["text"] + shown["window"]["text"] + onward["window"]["text"]
        == ("Dear Alice, we signed the lease for Lindenstraße 12"[: onward["window"]["end_chars"]])
    )
    assert shown["window"]["start_chars"] == 10
    assert shown["window"]["has_more"]
    assert "pdpp://" not in text_of(first)
    assert "pdpp://" not in json.dumps(structured(first))


@scenario("B6")
def test_a_match_is_told_with_its_offsets_in_the_field(bearer: str) -> None:
    window = seen(
        real.call(bearer, "read_record_field", id=LEASE, field_path="body_text", q="lease",
                  before_chars=8, after_chars=4)
    )["window"]  # fmt: skip

    start = window["match_start_chars"] - window["start_chars"]
    assert window["text"][start : start + 5] == "lease"
    assert len(window["text"]) <= 8 + 5 + 4 + 32


@scenario("B7")
def test_a_small_field_comes_whole_and_inline(bearer: str) -> None:
    result = real.call(bearer, "read_record_field", id=LEASE, field_path="subject")

    window = seen(result)["window"]
    assert window["text"] == "Lease signed"
    assert (window["start_chars"], window["end_chars"], window["total_chars"]) == (0, 12, 12)
    assert window["complete"] is True
    assert (window["next_cursor"], window["previous_cursor"]) == (None, None)
    assert [block.type for block in result.content] == ["text"]


@scenario("B8", "B11")
def test_a_large_field_is_read_to_its_end_by_what_each_result_says(
    world: World, bearer: str
) -> None:
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
def test_a_field_that_is_no_text_is_read_as_its_json(bearer: str) -> None:
    result = structured(real.call(bearer, "read_record_field", id=LEASE, field_path="labels"))
    inner = structured(real.call(bearer, "read_record_field", id=LEASE, field_path="/labels/0"))

    assert result["field"] == {
        "path": "labels",
        "type": "array",
        "text_like": False,
        "media_type": "application/json",
        "size_bytes": 8,
    }
    assert json.loads(result["window"]["text"]) == ["home"]
    assert inner["window"]["text"] == "home"


@scenario("B8")
def test_records_too_large_for_a_page_are_cut_by_name(world: World, bearer: str) -> None:
    world.put((WORK, "messages", {"id": "long", "received_at": "2026-05-01T00:00:00Z",
                                  "subject": "Long", "body_text": LONG}))  # fmt: skip

    result = real.call(bearer, "query_records", stream="messages", connection_id=WORK)

    (record, *_) = seen(result)["records"]
    (full, *_) = structured(result)["data"]["data"]
    assert record["cut"] == ["body_text"]
    assert full["data"]["body_text"]["truncated"] is True
    assert full["data"]["body_text"]["total_chars"] == len(LONG)
    assert full["data"]["body_text"]["read"]["field"] == "body_text"


@scenario("B9")
def test_a_proven_hit_of_the_rest_search_carries_its_evidence(world: World) -> None:
    (hit,) = world.get("/v1/search", who="dora", q="euros").body["data"]

    (evidence, *_) = hit["evidence_excerpts"]
    assert evidence["field_path"] == "body_text"
    assert "<mark>euros</mark>" in evidence["preview_text"]
    assert isinstance(evidence["truncated"], bool)
    assert evidence["read"]["route"].endswith("/field-window")


@scenario("B11")
def test_a_page_and_an_export_are_named_where_there_is_more(bearer: str) -> None:
    shown = seen(
        real.call(bearer, "query_records", stream="transactions", connection_id=BANK, limit=2,
                  fields=["id", "name"])
    )  # fmt: skip

    assert shown["export"] == f"pdpp export transactions --connection {BANK} --fields id,name"
    rest = seen(
        real.ask(
            bearer,
            lambda client: client.call_tool(
                "query_records",
                {"stream": "transactions", "connection_id": BANK, "limit": 2,
                 "fields": ["id", "name"], "cursor": shown["next_cursor"]},
            ),
        )
    )  # fmt: skip
    assert [each["id"] for each in shown["records"] + rest["records"]] == [
        f"{BANK}/transactions:{key}" for key in ("b3", "b2", "b1")
    ]
    assert rest["has_more"] is False


def test_a_field_outside_the_grant_stays_outside(world: World) -> None:
    error = refusal(
        real.call(world.tokens["bob@mcp"], "read_record_field", id=LEASE, field_path="from_email")
    )

    assert error["code"] == "field_not_granted"
