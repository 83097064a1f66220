"""``GET /v1/schema`` and ``GET /v1/streams``."""

import copy
import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import MAIL, PERSONAL, WORK, World


def stream(body: dict[str, Any], name: str = "messages") -> dict[str, Any]:
    found: dict[str, Any] = next(
        row for source in body["connectors"] for row in source["streams"] if row["name"] == name
    )
    return found


def test_it_names_only_what_is_granted(world: World) -> None:
    body = world.get("/v1/schema").body
    assert [source["connector_key"] for source in body["connectors"]] == ["mail"]
    assert [row["name"] for row in body["connectors"][0]["streams"]] == ["messages"]
    assert "Bank" not in json.dumps(body)


def test_flags_say_what_really_works(world: World) -> None:
    fields = stream(world.get("/v1/schema").body)["field_capabilities"]
    assert fields["received_at"]["range_filter"]["usable"] is True
    assert fields["subject"]["lexical_search"] == {"declared": True, "usable": True}
    assert fields["size_bytes"]["granted"] is False
    assert fields["size_bytes"]["range_filter"] == {
        "declared": True,
        "usable": False,
        "operators": ["gte", "lt"],
        "reason": "field_not_granted",
    }
    assert fields["from_name"]["aggregation"]["group_by"]["usable"] is True


def test_every_flag_agrees_with_the_route_it_speaks_of(world: World) -> None:
    fields = stream(world.get("/v1/schema").body)["field_capabilities"]
    for name, flags in fields.items():
        sample = {"is_seen": "true", "size_bytes": "1", "received_at": "2026-01-01"}.get(name, "x")
        answer = world.get("/v1/streams/messages/records", **{f"filter__{name}": sample})
        assert (answer.status == 200) is flags["exact_filter"]["usable"], name
        for by in ("group_by", "count_distinct"):
            query = {"metric": "count", by: name} if by == "group_by" else {
                "metric": by, "field": name}  # fmt: skip
            answer = world.get("/v1/streams/messages/aggregate", **query)
            assert (answer.status == 200) is flags["aggregation"][by]["usable"], (name, by)


def test_the_compact_form_is_one_string_a_field(world: World) -> None:
    row = stream(world.get("/v1/schema", view=" Compact ").body)
    flags = "t=string|null,role=primary-title,eq,lex,a=count_distinct|group_by"
    assert row["field_capabilities"]["subject"] == flags
    assert row["field_capabilities"]["size_bytes"] == "t=integer|null,g=false"
    assert row["sort"] == ["received_at"]
    assert row["views"] == ["envelope"]
    assert row["search_modes"] == ["lexical"]


def test_a_thousand_streams_are_named_within_bounds(world: World) -> None:
    shape = MAIL["streams"][0]
    for number in range(40):
        streams = [
            shape | {"name": f"stream_{number:02}_{n:02}", "relationships": [], "query": {}}
            for n in range(25)
        ]
        document = MAIL | {
            "connector_id": f"https://registry.example/connectors/many{number:02}",
            "connector_key": f"many{number:02}",
            "streams": streams,
        }
        world.declare(document)
        world.connect(f"cin_many_{number:02}", f"many{number:02}", f"Connection {number}")
    answer = world.get("/v1/schema", who="alice", view="compact")
    assert len(json.dumps(answer.body).encode()) < 60_000
    named = {row["name"] for source in answer.body["connectors"] for row in source["streams"]}
    assert len(named) == 1_000 + 3
    assert answer.body["meta"]["warnings"][0]["code"] == "partial_results"
    one = world.get("/v1/schema", who="alice", view="compact", stream="stream_39_24").body
    assert "subject" in stream(one, "stream_39_24")["field_capabilities"]


def test_the_index_names_every_stream_and_nothing_more(world: World) -> None:
    body = world.get("/v1/schema", view="index", who="dora").body
    assert {source["connector_key"]: source["stream_names"] for source in body["connectors"]} == {
        "account": ["transactions"],
        "mail": ["messages", "threads"],
        "workspace": ["messages"],
    }


def test_it_narrows_to_a_stream_and_a_connection(world: World) -> None:
    body = world.get("/v1/schema", who="dora", stream="messages", connection_id=WORK).body
    assert (body["connector_count"], body["stream_count"]) == (1, 1)
    assert stream(body)["granted_connections"] == [
        {"connection_id": WORK, "display_name": "Work mail"}
    ]


def test_full_detail_wants_a_stream_and_one_source(world: World) -> None:
    assert world.get("/v1/schema", detail="full").error["param"] == "detail"
    several = world.get("/v1/schema", who="dora", detail="full", stream="messages")
    assert (several.status, several.error["code"]) == (409, "ambiguous_schema_detail")
    assert several.error["retry_with"] == "connection_id"
    one = world.get(
        "/v1/schema", who="dora", detail="full", stream="messages", connection_id=PERSONAL
    )
    assert one.status == 200


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"stream": "threads"}, "grant_stream_not_allowed"),
        ({"stream": "transactions"}, "not_found"),
        ({"stream": "nonsense"}, "not_found"),
        ({"connection_id": "cin_bank"}, "connection_not_found"),
    ],
)
def test_what_is_outside_is_refused_like_on_the_routes(
    world: World, query: dict[str, str], code: str
) -> None:
    assert world.get("/v1/schema", **query).error["code"] == code


def test_counts_are_shown_only_where_nothing_is_hidden(world: World) -> None:
    assert "record_count" not in stream(world.get("/v1/schema").body)
    row = stream(world.get("/v1/schema", who="dora", stream="threads").body, "threads")
    assert row["record_count"] == 1
    rows = world.get("/v1/streams", who="alice").body["data"]
    counts = {(row["connection_id"], row["name"]): row["record_count"] for row in rows}
    assert counts[PERSONAL, "messages"] == 5
    assert all("record_count" not in row for row in world.get("/v1/streams").body["data"])


def test_freshness_is_shown_only_where_no_field_is_hidden(world: World) -> None:
    assert stream(world.get("/v1/schema", who="dora", connection_id=WORK).body)["freshness"] == {
        "status": "current",
        "captured_at": "2026-10-01T00:00:00Z",
    }
    world.grant(
        "kim",
        GrantRequest(
            connection_ids=[WORK], streams=[StreamRequest(name="messages", fields=["subject"])]
        ),
    )
    row = stream(world.get("/v1/schema", who="kim").body)
    assert (row["record_count"], row["freshness"]) == (2, {"status": "unknown"})


def test_the_members_that_the_contract_requires_are_there(world: World) -> None:
    """The validators of the reference require them."""
    for view in ("compact", "full"):
        body = world.get("/v1/schema", who="bob", view=view).body
        assert (body["bearer"]["token_kind"], body["bearer"]["scope"]) == ("client", "grant")
        [connector] = body["connectors"]
        assert connector["source"] == {"kind": "connector", "id": MAIL["connector_id"]}
    [relation] = stream(body)["expand_capabilities"]
    assert relation["child_parent_key_field"] == relation["foreign_key"] == "thread_id"
    counted = stream(world.get("/v1/schema", who="dora").body, "threads")["query"]["aggregations"]
    assert "count" not in counted, "the contract knows true alone"


def test_an_expand_needs_the_related_stream(world: World) -> None:
    closed = stream(world.get("/v1/schema").body)["expand_capabilities"][0]
    assert (closed["usable"], closed["reason"]) == (False, "related_stream_not_granted")
    opened = stream(world.get("/v1/schema", who="dora", connection_id=WORK).body)
    assert opened["expand_capabilities"][0]["usable"] is True


def test_a_new_declaration_applies_to_the_next_call(world: World) -> None:
    streams = [dict(each) for each in MAIL["streams"]]
    streams[0] = streams[0] | {"query": streams[0]["query"] | {"expand": []}}
    world.declare(MAIL | {"version": "2.0.0", "streams": streams})
    row = stream(world.get("/v1/schema", who="dora", connection_id=WORK).body)
    assert row["expand_capabilities"] == []


def test_three_queries_with_the_token(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    # The token with all that hangs on it; declarations not met before; the counters; six of the ledger.
    with django_assert_max_num_queries(9):
        assert world.get("/v1/schema", who="dora").status == 200


def test_one_stream_has_a_page_of_its_own(world: World) -> None:
    assert world.get("/v1/streams/messages").body["name"] == "messages"
    assert world.get("/v1/streams/messages", who="dora").error["code"] == "ambiguous_connection"
    assert world.get("/v1/streams/threads").error["code"] == "grant_stream_not_allowed"


@pytest.mark.parametrize("path", ["/v1/schema", "/v1/streams", "/v1/streams/messages"])
def test_an_unchanged_answer_need_not_be_sent_again(world: World, path: str) -> None:
    first = world.get(path)
    assert first.headers["Vary"] == "Authorization"
    bearer = {"Authorization": f"Bearer {world.tokens['bob']}"}
    tag = first.headers["ETag"]
    again = Client(headers=bearer | {"If-None-Match": f"W/{tag}"}).get(path)
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    other = {"Authorization": f"Bearer {world.tokens['alice']}", "If-None-Match": tag}
    assert Client(headers=other).get(path, {"connection_id": WORK}).status_code == 200


def _freshness(world: World, who: str) -> list[Any]:
    """Every place that shows how fresh the messages of the personal mailbox are."""
    asked = {"connection_id": PERSONAL}
    row = stream(world.get("/v1/schema", who, **asked).body)
    listed = world.get("/v1/streams", who, **asked).body["data"]
    messages = next(each for each in listed if each["name"] == "messages")
    return [row["freshness"]["captured_at"], messages["last_updated"]]


def test_an_undeclared_field_moves_the_freshness_for_the_owner_alone(world: World) -> None:
    path = "/v1/streams/messages/records/m1"
    record = world.get(path, "alice", connection_id=PERSONAL).body["data"]
    before = _freshness(world, "dora")
    later = "2026-10-30T00:00:00Z"

    world.put((PERSONAL, "messages", record | {"x_raw": 1}), emitted_at=later)

    assert _freshness(world, "dora") == before == ["2026-10-01T00:00:00Z"] * 2
    assert _freshness(world, "alice") == [later] * 2
    world.put((PERSONAL, "messages", record | {"x_raw": 1, "subject": "New"}), emitted_at=later)
    assert _freshness(world, "dora") == [later] * 2


def test_a_field_that_is_no_longer_declared_moves_no_freshness(world: World) -> None:
    record = world.get("/v1/streams/messages/records/m1", "alice", connection_id=PERSONAL).body
    later = {"emitted_at": "2026-10-30T00:00:00Z"}
    world.put((PERSONAL, "messages", record["data"] | {"labels": ["x"]}), **later)
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    del document["streams"][0]["schema"]["properties"]["labels"]
    world.declare(document)
    streams = [StreamRequest(name="messages")]
    world.grant("zoe", GrantRequest(connection_ids=[PERSONAL], streams=streams))

    assert _freshness(world, "zoe") == ["2026-10-01T00:00:00Z"] * 2


def test_a_grant_of_all_fields_neither_shows_nor_versions_undeclared_ones(world: World) -> None:
    path, asked = "/v1/streams/messages/records/m1", {"connection_id": PERSONAL}
    before = world.get(path, "dora", **asked)
    since = world.get(
        "/v1/streams/messages/records", "dora", changes_since="beginning", limit=100, **asked
    ).body
    data = world.get(path, "alice", **asked).body["data"]

    world.put((PERSONAL, "messages", data | {"x_raw": 1}), emitted_at="2026-10-30T00:00:00Z")

    after = world.get(path, "dora", **asked)
    assert {**after.body, "request_id": 0} == {**before.body, "request_id": 0}
    told = {"changes_since": since["next_changes_since"], **asked}
    assert world.get("/v1/streams/messages/records", "dora", **told).ids == []
    assert world.get(path, "alice", **asked).body["data"]["x_raw"] == 1
