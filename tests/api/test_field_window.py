"""``GET /v1/streams/{stream}/records/{id}/field-window``."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from evidence.access.quotas import list_quotas, set_quotas
from evidence.search.analysis.tokenizer import UNITS_PER_TEXT
from tests.world import PERSONAL, WORK, World

WINDOW = "/v1/streams/messages/records/{}/field-window"


def read(world: World, key: str = "m2", who: str = "bob", **query: Any) -> Any:
    return world.get(WINDOW.format(key), who=who, **({"field": "body_text"} | query))


def test_a_small_field_comes_whole(world: World) -> None:
    window = read(world).body["window"]
    assert window["text"] == "Wonderful, I will transfer the deposit tomorrow."
    assert (window["start_chars"], window["end_chars"], window["total_chars"]) == (0, 48, 48)
    assert window["complete"] is True
    assert (window["next_offset_chars"], window["previous_offset_chars"]) == (None, None)


def test_windows_follow_one_another_to_the_end(world: World) -> None:
    whole = read(world).body["window"]["text"]
    pieces, offset = [], 0
    while offset is not None:
        window = read(world, offset_chars=offset, limit_chars=7).body["window"]
        pieces.append(window["text"])
        offset = window["next_offset_chars"]
    assert "".join(pieces) == whole


def test_a_window_never_breaks_a_grapheme(world: World) -> None:
    family = "👨‍👩‍👧‍👦"
    world.put((WORK, "messages", {"id": "e", "received_at": "2026-06-01T00:00:00Z",
        "body_text": f"ab{family}cd{family}"}))  # fmt: skip
    window = read(world, "e", limit_chars=4).body["window"]
    assert window["text"] == f"ab{family}"
    rest = read(world, "e", offset_chars=window["next_offset_chars"]).body["window"]
    assert rest["text"] == f"cd{family}"


@pytest.mark.parametrize("q", ["deposit", "DEPOSIT", "deposits", "transfer the deposit"])
def test_q_finds_what_search_finds(world: World, q: str) -> None:
    window = read(world, q=q, before_chars=4, after_chars=4).body["window"]
    match = slice(
        window["match_start_chars"] - window["start_chars"],
        window["match_end_chars"] - window["start_chars"],
    )
    assert window["text"][match].endswith("deposit")
    assert window["end_chars"] - window["start_chars"] <= len("transfer the deposit") + 8


def test_occurrence_finds_the_next_match(world: World) -> None:
    world.put((WORK, "messages", {"id": "o", "received_at": "2026-06-01T00:00:00Z",
        "body_text": "one two one two one"}))  # fmt: skip
    starts = [
        read(world, "o", q="one", occurrence=n).body["window"]["match_start_chars"]
        for n in (1, 2, 3)
    ]
    assert starts == [0, 8, 16]
    beyond = read(world, "o", q="one", occurrence=4).error
    assert (beyond["code"], beyond["param"]) == ("query_not_found", "occurrence")
    assert "3 times" in beyond["message"]
    assert read(world, "o", q="three", occurrence=4).error["param"] == "q"


REFUSED = [
    ({"field": ""}, 400, "invalid_field_path"),
    ({"field": "nonsense"}, 404, "field_not_found"),
    ({"field": "size_bytes"}, 403, "field_not_granted"),
    ({"offset_chars": "-1"}, 400, "invalid_window"),
    ({"offset_chars": "x"}, 400, "invalid_window"),
    ({"limit_chars": "0"}, 400, "invalid_window"),
    ({"q": "a", "offset_chars": "1"}, 400, "invalid_window"),
    ({"q": "  "}, 400, "invalid_window"),
    ({"before_chars": "1"}, 400, "invalid_window"),
    ({"q": "a", "before_chars": "9000"}, 400, "invalid_window"),
    ({"q": "absent words"}, 404, "query_not_found"),
    ({"cursor": "1"}, 400, "invalid_request"),
    ({"quote": ""}, 400, "invalid_window"),
    ({"expect_sha256": "abc"}, 400, "invalid_window"),
    ({"field": "/"}, 400, "invalid_field_path"),
    ({"field": "/body_text" + "/x" * 40}, 400, "invalid_field_path"),
]


@pytest.mark.parametrize(("query", "status", "code"), REFUSED)
def test_bad_windows_are_typed(world: World, query: dict[str, Any], status: int, code: str) -> None:
    answer = read(world, **query)
    assert (answer.status, answer.error["code"]) == (status, code)


def test_a_large_limit_is_clamped(world: World) -> None:
    assert read(world, limit_chars=99_999).body["meta"]["warnings"][0]["code"] == "limit_clamped"


def test_other_types_come_as_json_with_type_and_size(world: World) -> None:
    ask = {"who": "alice", "connection_id": PERSONAL}
    labels = read(world, "m1", field="labels", limit_chars=5, **ask).body
    assert labels["field"]["media_type"] == "application/json"
    assert (labels["window"]["text"], labels["window"]["has_more"]) == ('["hom', True)
    absent = read(world, "m3", field="thread_id", **ask)
    assert (absent.status, absent.error["code"]) == (404, "field_not_found")


@pytest.mark.parametrize("field", ["size_bytes", "is_seen"])
def test_a_number_or_a_boolean_has_no_window(world: World, field: str) -> None:
    ask = {"who": "alice", "connection_id": PERSONAL, "field": field}

    refused = read(world, "m2", **ask)

    assert (refused.status, refused.error["code"]) == (422, "field_not_text")


def test_a_pointer_leads_to_a_value_inside_a_field(world: World) -> None:
    ask = {"who": "alice", "connection_id": PERSONAL}
    inside = read(world, "m1", field="/labels/0", **ask).body
    assert (inside["field"]["type"], inside["window"]["text"]) == ("string", "home")
    assert read(world, "m1", field="/labels/7", **ask).error["code"] == "field_not_found"
    assert read(world, "m1", field="/body_text", **ask).body["window"]["complete"] is True
    assert read(world, "m1", field="/labels/0", connection_id=PERSONAL).error["code"] == (
        "field_not_granted"
    )


def test_a_quote_can_be_checked_later(world: World) -> None:
    hit = world.get("/v1/search", q="wonderful").body["data"][0]["evidence_excerpts"][0]
    at, sha256 = hit["start_chars"], hit["field_sha256"]
    quote = "transfer the deposit"
    known = {"quote": quote, "expect_sha256": sha256}
    status = read(world, offset_chars=at, **known).body["verification"]
    assert status == {
        "status": "moved",
        "field_sha256": sha256,
        "found_at_chars": 18,
        "field_changed": False,
    }
    assert read(world, offset_chars=18, **known).body["verification"]["status"] == "verified"
    assert read(world, expect_sha256=sha256).body["verification"]["status"] == "verified"
    made_up = read(world, quote="a quote made up", expect_sha256=sha256)
    assert made_up.body["verification"]["status"] == "absent"
    world.put((PERSONAL, "messages", {"id": "m2", "received_at": "2026-01-12T10:00:00Z",
        "body_text": "Something else."}))  # fmt: skip
    assert read(world, **known).body["verification"]["status"] == "changed"


def test_a_quote_is_checked_after_the_checks_of_the_read(world: World) -> None:
    hidden = read(world, field="from_email", quote="eva@example.org", connection_id=PERSONAL)
    assert hidden.error["code"] == "field_not_granted"
    assert read(world, "m0", quote="lease").error["code"] == "not_found"


@pytest.mark.parametrize("key", ["m0", "m99"])
def test_hidden_records_look_missing(world: World, key: str) -> None:
    answer = read(world, key)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


def test_an_ambiguous_record_asks_which(world: World) -> None:
    assert read(world, "m1").error["code"] == "ambiguous_connection"


def test_a_megabyte_is_read_in_two_queries(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.put((WORK, "messages", {"id": "mb", "received_at": "2026-06-01T00:00:00Z",
        "body_text": "0123456789" * 100_000}))  # fmt: skip
    read(world)
    with django_assert_num_queries(9):  # token, window, five of the ledger, two of a savepoint
        window = read(world, "mb", offset_chars=500_003, limit_chars=10).body["window"]
    assert window["text"] == "3456789012"
    assert window["previous_offset_chars"] == 499_993


def test_a_key_that_ends_like_the_route_is_read_and_deleted_by_its_path(world: World) -> None:
    world.put((PERSONAL, "messages", {"id": "a/field-window", "body_text": "the whole of it"}))
    path = "/v1/streams/messages/records/a%2Ffield-window"
    here = {"connection_id": PERSONAL}

    record = world.get(path, "dora", fields="body_text", **here)
    window = world.get(f"{path}/field-window", "dora", field="body_text", **here)
    assert record.body["data"]["body_text"] == window.body["window"]["text"] == "the whole of it"
    missing = world.get("/v1/streams/messages/records/m1/field-window", "dora", **here)
    assert (missing.status, missing.error["code"]) == (400, "invalid_field_path")
    gone = world.call("DELETE", path, "alice", connector_id="mail", **here)
    assert gone.status == 204
    assert world.get(path, "dora", **here).status == 400


@pytest.mark.parametrize("record", ["m3", "m99"])
def test_a_window_without_a_field_is_charged_one_call(world: World, record: str) -> None:
    grant_id = world.grants["bob"][0].pk
    set_quotas(grant_id, {("calls", "day"): 10}, now=timezone.now())

    refused = world.get(WINDOW.format(record), connection_id=PERSONAL)

    assert (refused.status, refused.error["code"]) == (400, "invalid_field_path")
    assert refused.error["param"] == "field"
    [calls] = list_quotas(grant_id, now=timezone.now())
    assert calls.used == 1
    unnamed = world.get(WINDOW.format(record), connection_id=PERSONAL, offset_chars=3)
    assert (unnamed.status, unnamed.error["code"]) == (400, "invalid_field_path")


def test_forms_of_a_word_are_searched_with_bounded_work(world: World) -> None:
    hostile = "1.5-2/3 " * (UNITS_PER_TEXT // 4)
    for key, text in (("h", f"{hostile}unicorn"), ("i", f"unicorn {hostile}")):
        world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z",
            "body_text": text}))  # fmt: skip

    assert read(world, "h", q="unicorns").error["code"] == "query_not_found"
    assert read(world, "h", q="unicorn").status == 200
    assert read(world, "i", q="unicorns").status == 200
