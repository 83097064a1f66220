"""``GET /v1/streams/{stream}/records/{id}``."""

from urllib.parse import quote

import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import PERSONAL, WORK, World

RECORD = "/v1/streams/messages/records/"


def test_it_shows_one_record_cut_to_the_grant(world: World) -> None:
    answer = world.get(RECORD + "m2")
    assert answer.status == 200
    assert answer.body["data"]["subject"] == "Re: Lease signed"
    assert "size_bytes" not in answer.body["data"]
    assert answer.body["connection_id"] == PERSONAL
    assert answer.body["record_json_bytes"] > 0


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param("m0", id="before the time range"),
        pytest.param("m4", id="without a time"),
        pytest.param("t1", id="of another stream"),
        pytest.param("m99", id="missing"),
        pytest.param("a\x00b", id="impossible"),
    ],
)
def test_a_hidden_record_answers_byte_for_byte_like_a_missing_one(
    world: World, hidden: str
) -> None:
    missing = world.get(RECORD + "certainly-missing", fields="id")
    answer = world.get(RECORD + quote(hidden, safe=""), fields="id")
    assert answer.status == missing.status == 404
    assert answer.error | {"request_id": ""} == missing.error | {"request_id": ""}


def test_absent_and_hidden_take_the_same_queries(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.get(RECORD + "m2")
    # The token with all that hangs on it; the row. What is shown is written down besides.
    with django_assert_num_queries(8):
        world.get(RECORD + "m2")
    for record_key in ("m0", "m99"):
        with django_assert_num_queries(5):  # and a line for the owner, who may ask why
            world.get(RECORD + record_key)


def test_a_record_under_two_connections_asks_which(world: World) -> None:
    answer = world.get(RECORD + "m1")
    assert (answer.status, answer.error["code"]) == (409, "ambiguous_connection")
    assert answer.error["available_connections"] == [
        {
            "connection_id": connection_id,
            "display_name": label,
            "connector_key": "mail",
            "grant_id": world.grants["bob"][0].grant_id,
            "stream": "messages",
        }
        for connection_id, label in ((PERSONAL, "Personal mail"), (WORK, "Work mail"))
    ]
    assert world.get(RECORD + "m1", connection_id=WORK).body["data"]["subject"] == "Budget review"


def test_only_connections_that_have_the_record_can_be_chosen(world: World) -> None:
    world.connect("cin_club", "mail", "Club mail")
    streams = [StreamRequest(name="messages")]
    world.grant("gina", GrantRequest(connection_ids=[PERSONAL, WORK, "cin_club"], streams=streams))
    choices = world.get(RECORD + "m1", "gina").error["available_connections"]
    assert [each["connection_id"] for each in choices] == [PERSONAL, WORK]


def test_only_connections_that_show_the_record_are_candidates(world: World) -> None:
    world.put((WORK, "messages", {"id": "m0", "received_at": "2026-06-01T00:00:00Z"}))
    assert world.get(RECORD + "m0").body["connection_id"] == WORK


@pytest.mark.parametrize("key", ["a/b", "..", "a..b", "über", "a?b#c", "pdpp://record/x", "% 2F"])
def test_keys_may_contain_anything_but_control_characters(world: World, key: str) -> None:
    world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z"}))
    assert world.get(RECORD + quote(key, safe="")).body["id"] == key


def test_fields_are_narrowed_before_anything_is_shown(world: World) -> None:
    answer = world.get(RECORD + "m2", fields="subject")
    assert answer.body["data"].keys() == {"id", "subject"}
    assert world.get(RECORD + "m2", fields="size_bytes").error["code"] == "field_not_granted"


def test_the_version_changes_with_what_is_granted_and_with_nothing_else(world: World) -> None:
    before = world.get(RECORD + "m2").body
    changed = {"id": "m2", "received_at": "2026-01-12T10:00:00Z", "subject": "Re: Lease signed",
        "from_name": "Alice", "thread_id": "t1",
        "body_text": "Wonderful, I will transfer the deposit tomorrow."}  # fmt: skip
    hidden = changed | {"is_seen": True, "size_bytes": 1}
    world.put((PERSONAL, "messages", hidden), emitted_at="2026-10-20T00:00:00Z")
    after = world.get(RECORD + "m2").body
    assert (after["version"], after["emitted_at"]) == (before["version"], before["emitted_at"])
    shown = hidden | {"subject": "Changed"}
    world.put((PERSONAL, "messages", shown), emitted_at="2026-10-21T00:00:00Z")
    last = world.get(RECORD + "m2").body
    assert last["version"] != before["version"]
    assert last["emitted_at"] == "2026-10-21T00:00:00Z"


@pytest.mark.parametrize("key", [".", ".."])
def test_links_to_keys_of_dots_keep_them(world: World, key: str) -> None:
    world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z",
        "body_text": "a numbat"}))  # fmt: skip

    [hit] = world.get("/v1/search", "dora", q="numbat").body["data"]

    assert f"/records/{key.replace('.', '%2E')}?" in hit["record_url"]
    assert world.get(hit["record_url"], "dora").body["id"] == key
