"""``expand`` and ``expand_limit`` on records and on one record."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import QueryDict
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import MAIL, PERSONAL, WORK, World, mail

MESSAGES = "/v1/streams/messages/records"
THREADS = "/v1/streams/threads/records"


@pytest.fixture
def mailbox(world: World) -> World:
    """A thread of six messages, one that nobody wrote to, and one of another mailbox."""
    world.put(
        (PERSONAL, "threads", {"id": "t2", "topic": "Nobody wrote"}),
        (WORK, "threads", {"id": "t1", "topic": "Work has a t1, too"}),
        (WORK, "messages", mail("x1", "2026-04-01T00:00:00Z", thread_id="t1", subject="At work")),
        *(
            (
                PERSONAL,
                "messages",
                mail(f"a{n}", f"2026-02-0{n}T00:00:00Z", thread_id="t1", subject=f"Reply {n}"),
            )
            for n in range(1, 5)
        ),
    )
    return world


def reader(
    world: World, *streams: StreamRequest, connections: tuple[str, ...] = (PERSONAL,)
) -> str:
    return world.grant("rita", GrantRequest(connection_ids=connections, streams=streams))


def stream(name: str) -> dict[str, Any]:
    """A stream whose keys are numbers."""
    number = {"type": "integer"}
    return {
        "name": name,
        "semantics": "mutable_state",
        "schema": {
            "type": "object",
            "required": ["id"],
            "properties": {"id": number, "topic": number},
        },
        "primary_key": ["id"],
        "selection": {"fields": True, "resources": True},
    }


def forum(*streams: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocol_version": "0.1.0",
        "connector_id": "https://registry.example/connectors/forum",
        "connector_key": "forum",
        "version": "1",
        "display_name": "Forum",
        "streams": streams,
    }


def children(row: dict[str, Any], relation: str = "messages") -> list[str]:
    return [child["id"] for child in row["expanded"][relation]["data"]]


def test_a_relation_to_one_gives_the_record_or_null(mailbox: World) -> None:
    answer = mailbox.get(MESSAGES, "dora", expand="thread", connection_id=PERSONAL)
    threads = {row["id"]: row["expanded"]["thread"] for row in answer.body["data"]}
    assert threads["m3"] is None
    assert (
        threads["m1"].items()
        <= mailbox.get(f"{THREADS}/t1", "dora", connection_id=PERSONAL).body.items()
    )
    assert threads["m1"]["data"] == {"id": "t1", "topic": "The lease"}
    assert threads["m1"]["stream"] == "threads"
    assert threads["m1"]["connection_id"] == PERSONAL


def test_a_relation_to_many_gives_the_newest_first_up_to_the_declared_limit(
    mailbox: World,
) -> None:
    answer = mailbox.get(THREADS, "dora", expand="messages", connection_id=PERSONAL, order="asc")
    one, other = answer.body["data"]
    assert children(one) == ["a4", "a3"]
    assert one["expanded"]["messages"]["has_more"] is True
    assert one["expanded"]["messages"]["object"] == "list"
    assert other["expanded"]["messages"]["data"] == []
    assert other["expanded"]["messages"]["has_more"] is False


def test_expand_limit_asks_for_more_or_fewer(mailbox: World) -> None:
    for n, has_more in ((1, True), (5, True)):
        asked = {"connection_id": PERSONAL, "expand": "messages", "expand_limit__messages": n}
        row = mailbox.get(f"{THREADS}/t1", "dora", **asked).body
        assert children(row) == ["a4", "a3", "a2", "a1", "m2"][:n]
        assert row["expanded"]["messages"]["has_more"] is has_more


def test_the_children_can_be_listed_from_where_they_were_cut(mailbox: World) -> None:
    row = mailbox.get(f"{THREADS}/t1", "dora", connection_id=PERSONAL, expand="messages").body
    path, _, query = row["expanded"]["messages"]["url"].partition("?")
    listed = mailbox.get(path, "dora", **QueryDict(query).dict())
    assert listed.ids == ["a4", "a3", "a2", "a1", "m2", "m1"]


def test_related_records_come_from_the_connection_of_the_record(mailbox: World) -> None:
    """Both mailboxes have a thread t1."""
    answer = mailbox.get(THREADS, "dora", expand="messages", order="asc")
    assert [(row["connection_id"], children(row)) for row in answer.body["data"]] == [
        (PERSONAL, ["a4", "a3"]),
        (WORK, ["x1"]),
        (PERSONAL, []),
    ]


def test_children_show_what_their_own_stream_grants(mailbox: World) -> None:
    reader(
        mailbox,
        StreamRequest(name="threads"),
        StreamRequest(
            name="messages", fields=["thread_id", "subject"], since=datetime(2026, 2, 2, tzinfo=UTC)
        ),
    )
    row = mailbox.get(f"{THREADS}/t1", "rita", expand="messages", expand_limit__messages=5).body
    assert children(row) == ["a4", "a3", "a2"]
    assert row["expanded"]["messages"]["has_more"] is False
    assert row["expanded"]["messages"]["data"][0]["data"] == {
        "id": "a4", "thread_id": "t1", "subject": "Reply 4",
    }  # fmt: skip


def test_limits_count_visible_children_only(mailbox: World) -> None:
    reader(
        mailbox,
        StreamRequest(name="threads"),
        StreamRequest(name="messages", resources=["m1", "a1"]),
    )
    row = mailbox.get(f"{THREADS}/t1", "rita", expand="messages", expand_limit__messages=2).body
    assert children(row) == ["a1", "m1"]
    assert row["expanded"]["messages"]["has_more"] is False


def test_a_record_outside_the_grant_looks_like_a_missing_one(mailbox: World) -> None:
    reader(
        mailbox,
        StreamRequest(name="messages"),
        StreamRequest(name="threads", resources=["t2"]),
    )
    hidden = mailbox.get(f"{MESSAGES}/m1", "rita", expand="thread").body
    mailbox.put((PERSONAL, "messages", mail("n1", "2026-02-09T00:00:00Z", thread_id="nowhere")))
    missing = mailbox.get(f"{MESSAGES}/n1", "rita", expand="thread").body
    assert hidden["expanded"] == missing["expanded"] == {"thread": None}


def test_hidden_children_change_no_answer(mailbox: World) -> None:
    reader(
        mailbox,
        StreamRequest(name="threads"),
        StreamRequest(
            name="messages", fields=["thread_id", "subject"], since=datetime(2026, 2, 2, tzinfo=UTC)
        ),
    )
    asked = {"expand": "messages", "expand_limit__messages": 2}
    before = mailbox.get(THREADS, "rita", **asked).body
    mailbox.put(
        (PERSONAL, "messages", mail("z1", "2025-01-01T00:00:00Z", thread_id="t1")),
        (PERSONAL, "messages", mail("z2", None, thread_id="t2")),
        (PERSONAL, "messages", mail("a4", "2026-02-04T00:00:00Z", thread_id="t1",
                                    subject="Reply 4", is_seen=True)),
        (WORK, "messages", mail("z3", "2026-09-01T00:00:00Z", thread_id="t1")),
    )  # fmt: skip
    assert mailbox.get(THREADS, "rita", **asked).body == before


def test_without_the_time_field_children_come_by_key(mailbox: World) -> None:
    reader(
        mailbox,
        StreamRequest(name="threads"),
        StreamRequest(name="messages", fields=["thread_id"]),
    )
    row = mailbox.get(f"{THREADS}/t1", "rita", expand="messages", expand_limit__messages=3).body
    assert children(row) == ["m2", "m1", "a4"]


def test_the_key_that_links_is_not_shown_unless_asked_for(mailbox: World) -> None:
    answer = mailbox.get(
        MESSAGES, "dora", expand="thread", fields="subject", connection_id=PERSONAL
    )
    row = next(row for row in answer.body["data"] if row["id"] == "m1")
    assert row["data"] == {"id": "m1", "subject": "Lease signed"}
    assert row["expanded"]["thread"]["id"] == "t1"


@pytest.mark.parametrize(
    ("streams", "relation", "path"),
    [
        ([StreamRequest(name="messages")], "thread", MESSAGES),
        (
            [StreamRequest(name="messages", fields=["subject"]), StreamRequest(name="threads")],
            "thread",
            MESSAGES,
        ),
        (
            [StreamRequest(name="threads"), StreamRequest(name="messages", fields=["subject"])],
            "messages",
            THREADS,
        ),
    ],
    ids=["the related stream is not granted", "nor the key here", "nor the key there"],
)
def test_a_relation_outside_the_grant_is_refused_and_the_schema_says_so(
    mailbox: World, streams: list[StreamRequest], relation: str, path: str
) -> None:
    reader(mailbox, *streams)
    assert mailbox.get(path, "rita").status == 200
    answer = mailbox.get(path, "rita", expand=relation)
    assert (answer.status, answer.error["code"]) == (400, "invalid_expand")
    assert repr(relation) in answer.error["message"]
    assert "/v1/schema?stream=" in answer.error["next_step"]
    [capability] = mailbox.get(path.removesuffix("/records"), "rita").body["expand_capabilities"]
    assert capability["usable"] is False


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"expand": "nothing"}, "expand"),
        ({"expand": "messages.thread"}, "expand"),
        ({"expand": "messages,nothing"}, "expand"),
        ({"expand": "messages", "expand_limit__messages": "6"}, "expand_limit[messages]"),
        ({"expand": "messages", "expand_limit__messages": "0"}, "expand_limit[messages]"),
        ({"expand": "messages", "expand_limit__messages": "²"}, "expand_limit[messages]"),
        ({"expand": "messages", "expand_limit__messages": "9" * 5000}, "expand_limit[messages]"),
        ({"expand": "messages", "expand_limit__other": "1"}, "expand_limit[other]"),
        ({"expand": "messages", "expand_limit": "1"}, "expand_limit"),
        ({"expand_limit__messages": "1"}, "expand_limit[messages]"),
    ],
)
def test_what_cannot_be_expanded_is_refused_by_name(
    mailbox: World, query: dict[str, str], param: str
) -> None:
    assert mailbox.get(THREADS, "dora", expand="messages").status == 200
    for path in (THREADS, f"{THREADS}/t2"):
        answer = mailbox.get(path, "dora", connection_id=PERSONAL, **query)
        assert (answer.status, answer.error["code"]) == (400, "invalid_expand")
        assert answer.error["param"] == param


def test_a_related_stream_that_is_granted_elsewhere_only_is_not_granted_here(
    mailbox: World,
) -> None:
    mailbox.grant(
        "rita",
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")]),
        GrantRequest(
            connection_ids=[WORK],
            streams=[StreamRequest(name="messages"), StreamRequest(name="threads")],
        ),
    )
    assert mailbox.get(MESSAGES, "rita", expand="thread", connection_id=WORK).status == 200
    for where in ({"connection_id": PERSONAL}, {}):
        answer = mailbox.get(MESSAGES, "rita", expand="thread", **where)
        assert answer.error["code"] == "invalid_expand"


def test_grants_of_several_terms_are_each_kept_to(mailbox: World) -> None:
    since = datetime(2026, 2, 3, tzinfo=UTC)
    mailbox.grant(
        "rita",
        *(
            GrantRequest(
                connection_ids=[connection_id],
                streams=[StreamRequest(name="threads"), StreamRequest(name="messages", **terms)],
            )
            for connection_id, terms in ((PERSONAL, {"since": since}), (WORK, {}))
        ),
    )
    answer = mailbox.get(THREADS, "rita", expand="messages", expand_limit__messages=5, order="asc")
    assert [children(row) for row in answer.body["data"]] == [["a4", "a3"], ["x1"], []]
    one = mailbox.get(f"{THREADS}/t2", "rita", expand="messages").body
    assert children(one) == []


def test_nothing_to_expand_is_nothing(mailbox: World) -> None:
    asked = {"connection_id": PERSONAL, "expand": "thread"}
    assert mailbox.get(f"{MESSAGES}/m3", "dora", **asked).body["expanded"] == {"thread": None}
    empty = mailbox.get(THREADS, "dora", expand="messages", filter__topic="none such")
    assert empty.body["data"] == []


def test_a_stream_that_is_reached_in_more_ways_than_there_are_columns_expands_all_the_same(
    world: World,
) -> None:
    keys = [f"key_{n}" for n in range(1, 6)]
    topics, posts = stream("topics"), stream("posts")
    posts["schema"]["properties"] |= {key: {"type": ["string", "integer"]} for key in keys}
    topics["relationships"] = [
        {"name": key, "stream": "posts", "foreign_key": key, "cardinality": "has_many"}
        for key in keys
    ]
    topics["query"] = {"expand": [{"name": key} for key in keys]}
    world.declare(forum(topics, posts))
    world.connect("cin_forum", "forum", "Forum")
    world.put(
        ("cin_forum", "topics", {"id": 7}),
        *(("cin_forum", "posts", {"id": n, f"key_{n}": 7}) for n in range(1, 6)),
    )
    both = [StreamRequest(name="topics"), StreamRequest(name="posts")]
    world.grant("rita", GrantRequest(connection_ids=["cin_forum"], streams=both))
    topic = world.get("/v1/streams/topics/records/7", "rita", expand=",".join(keys)).body
    assert {key: children(topic, key) for key in keys} == {
        f"key_{n}": [str(n)] for n in range(1, 6)
    }
    assert "url" not in topic["expanded"]["key_1"]


def test_a_relation_to_one_takes_no_limit(mailbox: World) -> None:
    answer = mailbox.get(
        MESSAGES, "dora", connection_id=PERSONAL, expand="thread", expand_limit__thread="1"
    )
    assert (answer.status, answer.error["code"]) == (400, "invalid_expand")


def test_a_relation_that_is_declared_otherwise_now_is_not_in_the_grant(mailbox: World) -> None:
    """Its meaning was frozen when the grant was issued; the owner's own token has the new one."""
    document = deepcopy(MAIL)
    document["version"] = "2.0.0"
    document["streams"][0]["relationships"][0]["foreign_key"] = "subject"
    mailbox.declare(document)
    asked = {"expand": "thread", "connection_id": PERSONAL}
    assert mailbox.get(MESSAGES, "dora", **asked).error["code"] == "invalid_expand"
    assert mailbox.get(MESSAGES, "alice", **asked).status == 200


def test_limits_are_the_tightest_of_declared_and_frozen(mailbox: World) -> None:
    document = deepcopy(MAIL)
    document["version"] = "2.0.0"
    document["streams"][1]["query"]["expand"][0] |= {"default_limit": 3, "max_limit": 50}
    mailbox.declare(document)
    asked = {"expand": "messages", "connection_id": PERSONAL}
    assert len(children(mailbox.get(f"{THREADS}/t1", "dora", **asked).body)) == 2
    assert len(children(mailbox.get(f"{THREADS}/t1", "alice", **asked).body)) == 3
    too_many = mailbox.get(f"{THREADS}/t1", "dora", expand_limit__messages=6, **asked)
    assert too_many.error["message"].endswith("1 to 5.")


def test_numbers_point_at_records_as_their_keys_are_written(world: World) -> None:
    topics, posts = stream("topics"), stream("posts")
    for one, other, cardinality in ((posts, topics, "has_one"), (topics, posts, "has_many")):
        one["relationships"] = [
            {
                "name": "link",
                "stream": other["name"],
                "foreign_key": "topic",
                "cardinality": cardinality,
            }
        ]
        one["query"] = {"expand": [{"name": "link"}]}
    world.declare(forum(topics, posts))
    world.connect("cin_forum", "forum", "Forum")
    world.put(
        ("cin_forum", "topics", {"id": 7}),
        ("cin_forum", "posts", {"id": 1, "topic": 7}),
    )
    post = world.get("/v1/streams/posts/records/1", "alice", expand="link").body
    assert post["expanded"]["link"]["id"] == "7"
    topic = world.get("/v1/streams/topics/records/7", "alice", expand="link").body
    assert children(topic, "link") == ["1"]


def test_a_page_that_grows_too_large_gives_up_children_first_and_says_so(mailbox: World) -> None:
    for n in range(1, 5):
        mailbox.put(
            (PERSONAL, "messages", mail(f"a{n}", f"2026-02-0{n}T00:00:00Z", thread_id="t1",
                                        body_text="é" * 4000)),
        )  # fmt: skip
    asked = {"connection_id": PERSONAL, "expand": "messages", "expand_limit__messages": 5}
    whole = mailbox.get(f"{THREADS}/t1", "dora", **asked)
    answer = mailbox.get(f"{THREADS}/t1", "dora", max_bytes=4000, **asked)
    assert len(str(answer.body).encode()) < 4500 < len(str(whole.body).encode())
    kept = answer.body["expanded"]["messages"]
    assert kept["has_more"] is True
    assert [each["id"] for each in kept["data"]] == children(whole.body)[: len(kept["data"])]
    large = kept["data"][0]["data"]["body_text"]
    assert (large["truncated"], large["total_chars"]) == (True, 4000)
    assert large["read"]["record_id"] == "a4"


def test_a_related_record_that_is_too_large_is_windowed(mailbox: World) -> None:
    mailbox.put((PERSONAL, "threads", {"id": "t1", "topic": "long " * 4000}))
    asked = {"connection_id": PERSONAL, "expand": "thread", "max_bytes": 4000}
    one = mailbox.get(f"{MESSAGES}/m1", "dora", **asked).body
    topic = one["expanded"]["thread"]["data"]["topic"]
    assert (topic["truncated"], topic["read"]["stream"]) == (True, "threads")
    assert one["data"]["body_text"].startswith("Dear Alice")
    read = topic["read"]
    window = mailbox.get(
        read["route"], "dora", field=read["field"], connection_id=read["connection_id"]
    ).body
    assert window["window"]["total_chars"] == 20_000
    mailbox.put(
        (PERSONAL, "messages", mail("m3", "2026-03-05T18:30:00Z", body_text="long " * 4000))
    )
    alone = mailbox.get(f"{MESSAGES}/m3", "dora", **asked).body
    assert alone["expanded"] == {"thread": None}
    assert alone["data"]["body_text"]["truncated"] is True


def test_a_page_takes_one_query_a_relation(
    mailbox: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(10):  # token, records, threads, five of the ledger, a savepoint
        mailbox.get(MESSAGES, "dora", expand="thread", connection_id=PERSONAL)
    with django_assert_num_queries(10):  # token, records, messages, five of the ledger, a savepoint
        mailbox.get(THREADS, "dora", expand="messages")
    with django_assert_num_queries(9):  # token, record, messages, four of the ledger, a savepoint
        mailbox.get(f"{THREADS}/t2", "dora", expand="messages")
    with django_assert_num_queries(8):  # token, records, four of the ledger, a savepoint
        mailbox.get(MESSAGES, "dora", expand="", connection_id=PERSONAL)
