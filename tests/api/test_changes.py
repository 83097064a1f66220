"""``GET /v1/streams/{stream}/records?changes_since=…``."""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from evidence.access import change_log
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.models.connections import Connection
from evidence.models.events import Bookmark
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import NdjsonLine
from tests.world import (
    CHAT,
    MAIL,
    NOW,
    PERSONAL,
    WORK,
    Answer,
    World,
    mail,
)

LIST = "/v1/streams/messages/records"
SINCE_2026 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True, params=["few", "many"])
def _walked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few changes are read by number, many by key; what is told is the same."""
    if request.param == "many":
        monkeypatch.setattr(change_log, "MAX_SORTED_CHANGES", -1)


def feed(world: World, since: str, who: str = "bob", **query: Any) -> Answer:
    answer = world.get(LIST, who, changes_since=since, **query)
    assert answer.status == 200, answer.body
    return answer


def bookmark(world: World, who: str = "bob", **query: Any) -> str:
    """Where a client stands that has read everything."""
    answer = feed(world, "beginning", who, limit=100, **query)
    assert answer.body["has_more"] is False
    since: str = answer.body["next_changes_since"]
    return since


def told(answer: Answer) -> list[tuple[str, str, str]]:
    """(connection, id, "gone" or the subject)."""
    return [
        (
            row["connection_id"],
            row["id"],
            "gone" if row.get("deleted") else row["data"].get("subject", ""),
        )
        for row in answer.body["data"]
    ]


def delete(world: World, connection_id: str, key: str, stream: str = "messages") -> None:
    world.send([{"connection_id": connection_id, "stream": stream, "key": key, "op": "delete"}])


def m3(**changed: Any) -> dict[str, Any]:
    """The record m3 of the cast, changed."""
    whole = mail(
        "m3", "2026-03-05T18:30:00Z", subject="Dinner on Friday?", from_name="Jonas Weber",
        is_seen=True, size_bytes=700,
        body_text="Shall we meet at the café near the canal? 京都のお土産もあります。",
    )  # fmt: skip
    return whole | changed


def test_from_the_beginning_it_tells_every_visible_record_of_all_connections(world: World) -> None:
    answer = feed(world, "beginning")
    assert [(row["connection_id"], row["id"]) for row in answer.body["data"]] == [
        (PERSONAL, "m1"), (PERSONAL, "m2"), (PERSONAL, "m3"), (WORK, "m1"), (WORK, "w2"),
    ]  # fmt: skip
    listed = world.get(LIST).body["data"]
    assert sorted(answer.body["data"], key=str) == sorted(listed, key=str)
    assert answer.body["has_more"] is False


def test_nothing_new_is_nothing_and_a_bookmark_all_the_same(world: World) -> None:
    answer = feed(world, bookmark(world))
    assert answer.body["data"] == []
    assert answer.body["has_more"] is False
    assert answer.body["links"]["next"] is None
    assert feed(world, answer.body["next_changes_since"]).body["data"] == []


def test_it_tells_what_was_added_changed_and_deleted(world: World) -> None:
    since = bookmark(world)
    world.put(
        (PERSONAL, "messages", mail("n1", "2026-05-01T00:00:00Z", subject="New")),
        (PERSONAL, "messages", m3(subject="Dinner on Saturday?")),
    )
    delete(world, WORK, "w2")
    answer = feed(world, since)
    assert told(answer) == [
        (PERSONAL, "m3", "Dinner on Saturday?"),
        (PERSONAL, "n1", "New"),
        (WORK, "w2", "gone"),
    ]
    one = world.get(f"{LIST}/m3").body
    assert answer.body["data"][0] == {name: one[name] for name in answer.body["data"][0]}
    assert feed(world, answer.body["next_changes_since"]).body["data"] == []


def test_a_tombstone_says_when_and_where_and_nothing_of_the_record(world: World) -> None:
    since = bookmark(world)
    delete(world, WORK, "w2")
    [row] = feed(world, since).body["data"]
    assert row == {
        "object": "record",
        "id": "w2",
        "stream": "messages",
        "connection_id": WORK,
        "connector_instance_id": WORK,
        "connector_key": "mail",
        "display_name": "Work mail",
        "deleted": True,
        "deleted_at": "2026-11-01T12:00:00Z",
        "emitted_at": "2026-11-01T12:00:00Z",
    }


def test_a_change_of_a_hidden_field_shows_nothing(world: World) -> None:
    """The same change is told where the field is granted."""
    since, owners = bookmark(world), bookmark(world, "alice", connection_id=PERSONAL)
    world.put((PERSONAL, "messages", m3(is_seen=False, size_bytes=701)))
    assert feed(world, since).body["data"] == []
    assert told(feed(world, owners, "alice", connection_id=PERSONAL)) == [
        (PERSONAL, "m3", "Dinner on Friday?")
    ]


def test_changes_of_hidden_fields_take_no_further_query(world: World) -> None:
    since = bookmark(world)
    with CaptureQueriesContext(connection) as before:
        feed(world, since, limit=1)
    world.put(
        *(
            (PERSONAL, "messages", mail(f"h{n}", "2026-03-03T00:00:00Z", is_seen=True))
            for n in range(6, 12)
        )
    )
    since = bookmark(world)
    world.put(
        *(
            (PERSONAL, "messages", mail(f"h{n}", "2026-03-03T00:00:00Z", is_seen=False))
            for n in range(6, 12)
        )
    )
    with CaptureQueriesContext(connection) as after:
        assert feed(world, since, limit=1).body["data"] == []
    assert len(after) == len(before)


def test_a_record_is_listed_again_when_a_change_was_taken_back(world: World) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", m3(subject="Dinner on Saturday?")))
    between = feed(world, since).body["next_changes_since"]
    world.put((PERSONAL, "messages", m3()))
    for position in (since, between):
        assert told(feed(world, position)) == [(PERSONAL, "m3", "Dinner on Friday?")]


def test_a_record_deleted_and_put_back_the_same_is_listed(world: World) -> None:
    since = bookmark(world)
    delete(world, PERSONAL, "m3")
    world.put((PERSONAL, "messages", m3()))
    assert told(feed(world, since)) == [(PERSONAL, "m3", "Dinner on Friday?")]


def test_a_record_deleted_and_stored_again_is_shown_as_it_is(world: World) -> None:
    since = bookmark(world)
    delete(world, PERSONAL, "m3")
    fewer = m3()
    del fewer["body_text"]
    for data in (fewer, m3(thread_id="t1")):
        world.put((PERSONAL, "messages", data))
        assert told(feed(world, since)) == [(PERSONAL, "m3", "Dinner on Friday?")]
        delete(world, PERSONAL, "m3")


def test_a_record_that_came_and_went_shows_nothing(world: World) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", mail("n1", "2026-05-01T00:00:00Z", subject="New")))
    delete(world, PERSONAL, "n1")
    assert feed(world, since).body["data"] == []


def test_a_record_that_enters_the_time_range_appears_and_one_that_leaves_it_is_gone(
    world: World,
) -> None:
    since = bookmark(world)
    world.put(
        (PERSONAL, "messages", mail("m0", "2026-06-01T08:00:00Z", subject="Now in")),
        (PERSONAL, "messages", m3(received_at="2025-03-05T18:30:00Z")),
        (WORK, "messages", mail("w2", None, subject="Undated")),
    )
    assert told(feed(world, since)) == [
        (PERSONAL, "m0", "Now in"),
        (PERSONAL, "m3", "gone"),
        (WORK, "w2", "gone"),
    ]


def test_leaving_the_time_range_looks_like_being_deleted(world: World) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", m3(received_at="2025-03-05T18:30:00Z")))
    left = feed(world, since).body["data"]
    delete(world, PERSONAL, "m3")
    assert feed(world, since).body["data"] == left


def test_a_tombstone_has_the_time_of_the_change_that_hid_the_record(world: World) -> None:
    since = bookmark(world)
    lines: list[dict[str, Any]] = [
        {"data": m3(subject="Changed")},
        {"data": m3(received_at="2025-03-05T18:30:00Z")},
        {"op": "delete"},
    ]
    for hour, line in enumerate(lines):
        whole = line | {"connection_id": PERSONAL, "stream": "messages", "key": "m3"}
        ingest_lines(
            [NdjsonLine(1, json.dumps(whole).encode())],
            owner_id=world.owner_id,
            now=NOW + timedelta(hours=hour),
        )
    [row] = feed(world, since).body["data"]
    assert row["deleted_at"] == "2026-11-01T13:00:00Z"


def test_hidden_changes_are_never_listed(world: World) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", mail("m0", "2025-06-01T08:00:00Z", subject="Changed")))
    world.put((PERSONAL, "messages", mail("o1", "2025-06-01T08:00:00Z", subject="Old")))
    delete(world, PERSONAL, "m0")
    delete(world, PERSONAL, "m4")
    assert feed(world, since).body["data"] == []


def test_only_the_single_records_of_the_grant_are_listed(world: World) -> None:
    world.grant(
        "ivan",
        GrantRequest(
            connection_ids=[PERSONAL],
            streams=[StreamRequest(name="messages", resources=["m1", "n1"])],
        ),
    )
    since = bookmark(world, "ivan")
    world.put(
        (PERSONAL, "messages", mail("n1", None, subject="Granted")),
        (PERSONAL, "messages", mail("n2", None, subject="Not")),
    )
    delete(world, PERSONAL, "m3")
    assert told(feed(world, since, "ivan")) == [(PERSONAL, "n1", "Granted")]


def test_fields_cut_what_is_shown_and_not_what_counts_as_changed(world: World) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", m3(body_text="Other")))
    [row] = feed(world, since, fields="subject").body["data"]
    assert row["data"] == {"id": "m3", "subject": "Dinner on Friday?"}


def test_it_pages_to_a_horizon_that_is_fixed_on_page_one(world: World) -> None:
    first = feed(world, "beginning", limit=2)
    assert first.ids == ["m1", "m2"]
    assert first.body["has_more"] is True
    assert first.body["links"]["next"].startswith(f"{LIST}?changes_since=")
    world.put((PERSONAL, "messages", mail("n1", "2026-05-01T00:00:00Z", subject="New")))
    second = feed(world, first.body["next_changes_since"], limit=2)
    third = feed(world, second.body["next_changes_since"], limit=2)
    assert (second.ids, third.ids) == (["m3", "m1"], ["w2"])
    assert third.body["has_more"] is False
    assert feed(world, third.body["next_changes_since"]).ids == ["n1"]


def test_what_changes_while_pages_are_read_is_never_lost(world: World) -> None:
    """There and back around the horizon: the client must end with what is there."""
    since = bookmark(world)
    world.put(
        (PERSONAL, "messages", mail("a1", "2026-05-01T00:00:00Z", subject="First page")),
        (PERSONAL, "messages", m3(subject="B")),
    )
    first = feed(world, since, limit=1)
    assert first.ids == ["a1"]
    world.put((PERSONAL, "messages", m3()))
    second = feed(world, first.body["next_changes_since"], limit=1)
    assert told(second) == [(PERSONAL, "m3", "Dinner on Friday?")]
    world.put((PERSONAL, "messages", m3(subject="B")))
    assert told(feed(world, second.body["next_changes_since"])) == [(PERSONAL, "m3", "B")]


def test_a_hidden_time_decides_what_is_in_range_all_the_same(world: World) -> None:
    terms = StreamRequest(name="messages", fields=["subject"], since=SINCE_2026)
    world.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[terms]))
    since = bookmark(world, "ivan")
    world.put((PERSONAL, "messages", m3(received_at="2025-04-04T00:00:00Z")))
    left = feed(world, since, "ivan")
    assert told(left) == [(PERSONAL, "m3", "gone")]
    world.put((PERSONAL, "messages", m3(received_at="2026-04-04T00:00:00Z")))
    assert told(feed(world, since, "ivan")) == [(PERSONAL, "m3", "Dinner on Friday?")]
    back = feed(world, left.body["next_changes_since"], "ivan")
    assert told(back) == [(PERSONAL, "m3", "Dinner on Friday?")]


def test_a_record_hidden_between_pages_is_not_listed_again(world: World) -> None:
    """The time range counts although the time itself is hidden."""
    terms = StreamRequest(name="messages", fields=["subject"], since=SINCE_2026)
    world.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[terms]))
    first = feed(world, "beginning", "ivan", limit=1)
    world.put((PERSONAL, "messages", m3(received_at="2026-04-04T00:00:00Z")))
    rest = feed(world, first.body["next_changes_since"], "ivan")
    assert rest.ids == ["m2", "m3"]
    assert feed(world, rest.body["next_changes_since"], "ivan").ids == []


def test_a_page_ends_early_where_max_bytes_says_so(world: World) -> None:
    world.put(
        *(
            (PERSONAL, "messages", mail(f"n{n}", "2026-05-01T00:00:00Z", body_text="x" * 1500))
            for n in range(4)
        )
    )
    seen: list[str] = []
    since, more = "beginning", True
    while more:
        answer = feed(world, since, connection_id=PERSONAL, max_bytes=4000)
        seen += answer.ids
        since, more = answer.body["next_changes_since"], answer.body["has_more"]
    assert seen == ["m1", "m2", "m3", "n0", "n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"sort": "-received_at"}, "invalid_request"),
        ({"order": "asc"}, "invalid_request"),
        ({"count": "none"}, "invalid_request"),
        ({"window": "none"}, "invalid_request"),
        ({"cursor": "x"}, "invalid_request"),
        ({"filter__from_name": "Eva Lang"}, "invalid_request"),
        ({"expand": "thread"}, "invalid_expand"),
        ({"expand_limit__thread": "1"}, "invalid_expand"),
        ({"limit": 0}, "invalid_request"),
        ({"fields": "size_bytes"}, "field_not_granted"),
    ],
)
def test_what_does_not_go_with_a_feed_is_refused_by_name(
    world: World, query: Mapping[str, Any], code: str
) -> None:
    assert world.get(LIST, changes_since="beginning").status == 200
    answer = world.get(LIST, changes_since="beginning", **query)
    [name] = query
    assert (answer.error["code"], answer.error["param"]) == (code, name.partition("__")[0])


def test_a_stream_of_several_sources_asks_for_the_connection(world: World) -> None:
    answer = world.get(LIST, "dora", changes_since="beginning")
    assert (answer.status, answer.error["retry_with"]) == (409, "connection_id")
    assert feed(world, "beginning", "dora", connection_id=CHAT).ids == ["c1", "c2"]


@pytest.mark.parametrize("since", ["", "2026-01-01T00:00:00Z", "x" * 5000, "bm90IG91cnM", "€"])
def test_a_bookmark_that_is_not_ours_is_refused(world: World, since: str) -> None:
    answer = world.get(LIST, changes_since=since)
    assert answer.status == 400
    assert (answer.error["code"], answer.error["param"]) == ("invalid_cursor", "changes_since")


def test_a_bookmark_works_for_its_client_and_query_only(world: World) -> None:
    since = bookmark(world)
    world.grant(
        "ivan",
        GrantRequest(connection_ids=[PERSONAL, WORK], streams=[StreamRequest(name="messages")]),
    )
    edited = since[:-2] + ("AA" if since[-2:] != "AA" else "BB")
    cursor = world.get(LIST, limit=1).body["next_cursor"]
    for who, sent, query in (
        ("ivan", since, {}),
        ("bob", since, {"connection_id": PERSONAL}),
        ("bob", edited, {}),
        ("bob", cursor, {}),
    ):
        answer = world.get(LIST, who, changes_since=sent, **query)
        assert answer.error["code"] == "invalid_cursor"
    assert world.get(LIST, cursor=since).error["code"] == "invalid_cursor"


def test_a_bookmark_of_a_grant_that_was_replaced_has_expired_and_says_how_to_go_on(
    world: World,
) -> None:
    """A package whose grants are others than when the bookmark was given."""
    since = bookmark(world, "dora", connection_id=WORK)
    [_, chat, _] = world.grants["dora"]
    type(chat).unscoped.filter(pk=chat.pk).update(revoked_at=NOW)
    answer = world.get(LIST, "dora", changes_since=since, connection_id=WORK)
    assert (answer.status, answer.error["code"]) == (410, "cursor_expired")
    assert "changes_since=beginning" in answer.error["next_step"]
    assert answer.error["param"] == "changes_since"


def test_a_connection_that_has_gone_ends_its_bookmarks(world: World) -> None:
    since = bookmark(world)
    Connection.unscoped.filter(connection_id=WORK).update(status=Connection.Status.REVOKED)
    answer = world.get(LIST, changes_since=since)
    assert (answer.status, answer.error["code"]) == (410, "cursor_expired")


def test_an_added_connection_is_listed_from_its_beginning(world: World) -> None:
    path = "/v1/streams/transactions/records"
    since = world.get(path, "alice", changes_since="beginning").body["next_changes_since"]
    world.connect("cin_savings", "account", "Savings account")
    world.put(("cin_savings", "transactions", {"id": "s1", "date": "2020-01-01", "amount": 1}))
    answer = world.get(path, "alice", changes_since=since)
    assert answer.ids == ["s1"]
    since = answer.body["next_changes_since"]
    assert world.get(path, "alice", changes_since=since).ids == []


def test_a_declaration_that_dates_records_otherwise_ends_the_bookmarks(world: World) -> None:
    since = bookmark(world)
    document = deepcopy(MAIL)
    document["version"] = "1.1.0"
    document["streams"][0]["schema"]["properties"]["filed_at"] = {
        "type": ["string", "null"],
        "format": "date-time",
    }
    world.declare(document)
    assert feed(world, since).body["data"] == []
    document["version"] = "1.2.0"
    document["streams"][0]["consent_time_field"] = "filed_at"
    world.declare(document)
    answer = world.get(LIST, changes_since=since)
    assert (answer.status, answer.error["code"]) == (410, "cursor_expired")


def test_over_many_connections_a_bookmark_stays_short_and_works_the_same(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """More than eight: the numbers are stored, and the same position is stored once."""
    ids = [f"cin_many{n:02}" for n in range(12)]
    for each in ids:
        world.connect(each, "mail", each)
    world.put(*((each, "messages", mail("k1", "2026-05-01T00:00:00Z")) for each in ids))
    terms = [StreamRequest(name="messages")]
    world.grant("many", GrantRequest(connection_ids=ids, streams=terms))
    world.grant("few", GrantRequest(connection_ids=ids[:8], streams=terms))
    first = feed(world, "beginning", "many", limit=5)
    # token, bookmark given back, changes, bookmark given out, nine of the ledger
    with django_assert_num_queries(11):
        second = feed(world, first.body["next_changes_since"], "many", limit=5)
    third = feed(world, second.body["next_changes_since"], "many", limit=5)
    assert [len(page.ids) for page in (first, second, third)] == [5, 5, 2]
    assert Bookmark.unscoped.count() == 2
    since = third.body["next_changes_since"]
    assert len(since) < len(bookmark(world, "few"))
    world.put((ids[11], "messages", mail("k2", "2026-05-01T00:00:00Z", subject="New")))
    assert told(feed(world, since, "many")) == [(ids[11], "k2", "New")]
    Bookmark.unscoped.all().delete()
    answer = world.get(LIST, "many", changes_since=since)
    assert (answer.status, answer.error["code"]) == (410, "cursor_expired")


def test_the_length_of_a_bookmark_does_not_tell_how_much_happened(world: World) -> None:
    short = bookmark(world)
    Connection.unscoped.filter(connection_id=PERSONAL).update(change_seq=10**11)
    assert len(bookmark(world)) == len(short)


def test_a_log_restored_from_a_backup_ends_the_bookmarks_that_are_ahead_of_it(
    world: World,
) -> None:
    since = bookmark(world)
    Connection.unscoped.filter(connection_id=PERSONAL).update(change_seq=1)
    assert world.get(LIST, changes_since=since).status == 410


def test_a_page_takes_two_queries_whatever_it_tells(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    since = bookmark(world)
    world.put((PERSONAL, "messages", m3(subject="B")))
    for position in ("beginning", since):
        with django_assert_num_queries(8):  # token, changes, four of the ledger, two of a savepoint
            feed(world, position)
