"""``GET /v1/streams/{stream}/records``."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_grant
from evidence.models.connections import Connection
from tests.world import BANK, CHAT, MAIL, NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"


def test_it_lists_newest_first_over_all_granted_connections(world: World) -> None:
    answer = world.get(LIST)
    assert answer.ids == ["m3", "w2", "m1", "m2", "m1"]
    assert answer.body["has_more"] is False
    assert answer.body["links"]["next"] is None


def test_it_shows_the_granted_fields_and_no_others(world: World) -> None:
    for record in world.get(LIST).body["data"]:
        assert record["data"].keys() <= {
            "id", "subject", "from_name", "received_at", "body_text", "thread_id",
        }  # fmt: skip


def test_it_hides_what_lies_outside_the_time_range(world: World) -> None:
    assert "m0" in world.get(LIST, who="alice", connection_id=PERSONAL).ids
    assert "m0" not in world.get(LIST, connection_id=PERSONAL).ids


def test_the_end_of_the_time_range_is_outside(world: World) -> None:
    world.grant(
        "ivan",
        GrantRequest(
            connection_ids=[PERSONAL],
            streams=[StreamRequest(name="messages", until=datetime(2026, 1, 12, 10, tzinfo=UTC))],
        ),
    )
    assert world.get(LIST, who="ivan").ids == ["m1", "m0"]


def test_a_revoked_connection_is_gone_for_everybody(world: World) -> None:
    Connection.unscoped.filter(connection_id=WORK).update(status=Connection.Status.REVOKED)
    assert world.get(LIST).ids == ["m3", "m2", "m1"]
    assert world.get(LIST, connection_id=WORK).error["code"] == "connection_not_found"


def test_a_shown_field_need_not_choose_rows(world: World) -> None:
    document = deepcopy(MAIL) | {"version": "1.1.0"}
    document["streams"][0]["schema"]["properties"]["headers"] = {"type": "object"}
    world.declare(document)
    request = StreamRequest(name="messages", fields=["headers"])
    world.grant("hedy", GrantRequest(connection_ids=[PERSONAL], streams=[request]))
    answer = world.get(LIST, who="alice", connection_id=PERSONAL, filter__headers="home")
    assert answer.status == 400
    refused = world.get(LIST, who="hedy", connection_id=PERSONAL, filter__headers="home")
    assert (refused.status, refused.error["code"]) == (403, "field_not_granted")
    assert refused.error["param"] == "filter[headers]"
    assert "does not allow filtering by it" in refused.error["message"]
    assert "stream=messages" in refused.error["next_step"]


def test_fields_that_differ_between_connections_are_usable_where_granted(world: World) -> None:
    world.grant(
        "jana",
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")]),
        GrantRequest(
            connection_ids=[WORK], streams=[StreamRequest(name="messages", fields=["subject"])]
        ),
    )
    shown = {
        each["connection_id"]: set(each["data"]) for each in world.get(LIST, "jana").body["data"]
    }
    assert shown[WORK] == {"id", "subject"}
    assert "body_text" in shown[PERSONAL]
    assert world.get(LIST, "jana", filter__size_bytes=500).error["code"] == "field_not_granted"
    narrowed = world.get(LIST, "jana", filter__size_bytes=500, connection_id=PERSONAL)
    assert narrowed.ids == ["m2"]


def test_a_record_without_a_time_is_outside_every_time_range(world: World) -> None:
    assert "m4" in world.get(LIST, who="alice", connection_id=PERSONAL).ids
    assert "m4" not in world.get(LIST, connection_id=PERSONAL).ids


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_missing_cursor_value_comes_last_in_both_directions(world: World, order: str) -> None:
    ids = world.get(LIST, who="alice", connection_id=PERSONAL, order=order).ids
    assert ids[-1] == "m4"
    assert ids[:-1] == (["m0", "m1", "m2", "m3"] if order == "asc" else ["m3", "m2", "m1", "m0"])


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_follow_one_another_without_a_gap(world: World, order: str) -> None:
    whole = world.get(LIST, who="alice", connection_id=PERSONAL, order=order).ids
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    for _ in range(10):
        page = world.get(LIST, who="alice", connection_id=PERSONAL, order=order, limit=2, **cursor)
        seen += page.ids
        if not page.body["has_more"]:
            break
        cursor = {"cursor": page.body["next_cursor"]}
        assert page.body["links"]["next"].endswith(page.body["next_cursor"])
    assert seen == whole


def test_a_stranger_gets_the_answer_of_an_unknown_stream(world: World) -> None:
    hidden = world.get(LIST, who="charlie")
    unknown = world.get("/v1/streams/nonsense/records", who="charlie")
    assert (hidden.status, hidden.error["code"]) == (404, "not_found")
    assert hidden.error | {"request_id": ""} == unknown.error | {"request_id": ""}


def test_an_ungranted_stream_of_a_granted_source_is_forbidden(world: World) -> None:
    answer = world.get("/v1/streams/threads/records")
    assert (answer.status, answer.error["code"]) == (403, "grant_stream_not_allowed")


def test_one_connection_can_be_named(world: World) -> None:
    assert world.get(LIST, connection_id=WORK).ids == ["w2", "m1"]
    assert world.get(LIST, connector_instance_id=WORK).body["meta"]["warnings"][0]["code"] == (
        "deprecated_alias_used"
    )


@pytest.mark.parametrize("connection_id", [BANK, "cin_nowhere"])
def test_a_connection_outside_the_grant_does_not_exist(world: World, connection_id: str) -> None:
    answer = world.get(LIST, connection_id=connection_id)
    assert (answer.status, answer.error["code"]) == (404, "connection_not_found")
    assert answer.error["param"] == "connection_id"


def test_two_names_for_different_connections_are_refused(world: World) -> None:
    answer = world.get(LIST, connection_id=WORK, connector_instance_id=PERSONAL)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_a_stream_name_of_two_sources_asks_which(world: World) -> None:
    answer = world.get(LIST, who="dora")
    assert (answer.status, answer.error["code"]) == (409, "ambiguous_connection")
    assert answer.error["retry_with"] == "connection_id"
    assert answer.error["available_connection_count"] == 3
    assert {each["connector_key"] for each in answer.error["available_connections"]} == {
        "mail",
        "workspace",
    }


def test_limit_is_clamped_with_a_warning(world: World) -> None:
    answer = world.get(LIST, limit=1000)
    assert answer.status == 200
    assert answer.body["meta"]["warnings"] == [
        {
            "code": "limit_clamped",
            "message": "limit was lowered to 100.",
            "param": "limit",
            "detail": {"max_limit": 100, "requested_limit": 1000},
        }
    ]


BAD = [
    ({"limit": 0}, "invalid_request", "limit"),
    ({"limit": "-5"}, "invalid_request", "limit"),
    ({"limit": "ten"}, "invalid_request", "limit"),
    ({"limit": "9" * 5000}, "invalid_request", "limit"),
    ({"order": "up"}, "invalid_request", "order"),
    ({"sort": "subject"}, "invalid_sort", "sort"),
    ({"sort": "-received_at", "order": "asc"}, "invalid_sort", "sort"),
    ({"sort": "nonsense"}, "invalid_sort", "sort"),
    ({"count": "many"}, "invalid_request", "count"),
    ({"fields": "nonsense"}, "unknown_field", "fields"),
    ({"fields": "id", "view": "envelope"}, "invalid_request", "view"),
    ({"view": "sizes"}, "invalid_request", "view"),
    ({"view": "nonsense"}, "invalid_request", "view"),
    ({"filter__subject__gte": "a"}, "invalid_request", "filter[subject][gte]"),
    ({"filter__received_at__like": "a"}, "invalid_request", "filter[received_at][like]"),
    ({"filter__received_at__gte": "soon"}, "invalid_request", "filter[received_at][gte]"),
    ({"filter__nonsense": "a"}, "unknown_field", "filter[nonsense]"),
    ({"filter": "subject"}, "invalid_request", "filter"),
    ({"cursor": "nonsense"}, "invalid_cursor", "cursor"),
    ({"cursor": "é" * 30}, "invalid_cursor", "cursor"),
    ({"max_bytes": "999"}, "invalid_request", "max_bytes"),
    ({"max_line_bytes": "4000"}, "invalid_request", "max_line_bytes"),
    ({"max_bytes": "4000", "max_line_bytes": "999"}, "invalid_request", "max_line_bytes"),
    ({"max_bytes": "50001"}, "invalid_request", "max_bytes"),
    ({"subject_id": "x"}, "invalid_argument", "subject_id"),
    ({"connection_id": "a\x00b"}, "invalid_request", "connection_id"),
]


@pytest.mark.parametrize("name", ["mail", "https://registry.example/connectors/mail"])
def test_one_connector_can_be_named(world: World, name: str) -> None:
    assert {each["connection_id"] for each in records(world, connector_id=name)} == {PERSONAL, WORK}
    assert world.get(LIST, "alice").error["code"] == "ambiguous_connection"


def test_a_connector_outside_the_grant_does_not_exist(world: World) -> None:
    hidden = world.get(LIST, connector_id="account")
    missing = world.get(LIST, connector_id="nothing")

    assert (hidden.status, hidden.error["code"], hidden.error["param"]) == (
        404, "not_found", "connector_id")  # fmt: skip
    assert hidden.error | {"request_id": ""} == missing.error | {"request_id": ""}
    other = world.get(LIST, "dora", connector_id="mail", connection_id=CHAT)
    assert other.error["code"] == "connection_not_found"


def test_the_owner_may_be_named_and_nobody_else(world: World) -> None:
    assert world.get(LIST, subject_id=world.owner_id).ids == world.get(LIST).ids


def records(world: World, **query: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = world.get(LIST, "alice", **query).body["data"]
    return listed


@pytest.mark.parametrize(("query", "code", "param"), BAD)
def test_bad_input_names_the_parameter(
    world: World, query: dict[str, Any], code: str, param: str
) -> None:
    answer = world.get(LIST, **query)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, code, param)


@pytest.mark.parametrize("name", ["fields", "sort", "filter__from_email"])
def test_an_ungranted_field_is_forbidden_wherever_it_is_named(world: World, name: str) -> None:
    answer = world.get(LIST, **{name: "from_email"})
    assert (answer.status, answer.error["code"]) == (403, "field_not_granted")
    assert answer.error["message"] == "The grant does not include the field 'from_email'."
    assert "stream=messages" in answer.error["next_step"]
    assert world.get(LIST, who="alice", connection_id=WORK, **{name: "id"}).status in (200, 400)


def test_a_field_that_does_not_exist_is_named_with_where_fields_are_listed(world: World) -> None:
    error = world.get(LIST, fields="x" * 100).error

    assert error["message"] == f"The stream 'messages' declares no field {'x' * 64!r}."
    assert "stream=messages" in error["next_step"]


def test_fields_narrow_to_those_named_and_the_key(world: World) -> None:
    data = world.get(LIST, fields="subject").body["data"]
    assert {frozenset(record["data"]) for record in data} == {frozenset({"id", "subject"})}


def test_a_view_narrows_to_its_fields(world: World) -> None:
    data = world.get(LIST, view="envelope").body["data"]
    assert {frozenset(record["data"]) for record in data} == {
        frozenset({"id", "subject", "received_at"})
    }


def test_filters_narrow_by_declared_type(world: World) -> None:
    ask = {"who": "alice", "connection_id": PERSONAL}
    assert world.get(LIST, filter__size_bytes__gte=700, **ask).ids == ["m3", "m1"]
    assert world.get(LIST, filter__size_bytes=100, **ask).ids == ["m4"]
    assert world.get(LIST, filter__is_seen="false", **ask).ids == ["m2"]
    assert world.get(LIST, filter__from_name="Eva Lang", **ask).ids == ["m1", "m0"]
    both = {"filter__received_at__gte": "2026-01-01", "filter__received_at__lt": "2026-02-01"}
    assert world.get(LIST, **both, **ask).ids == ["m2", "m1"]
    same_moment = world.get(LIST, filter__received_at="2026-01-10T10:00:00+01:00", **ask)
    assert same_moment.ids == ["m1"]
    assert world.get(LIST, filter__size_bytes="abc", **ask).status == 400


def test_texts_have_an_order_and_times_need_no_column(world: World) -> None:
    document = deepcopy(MAIL) | {"version": "2.0.0"}
    messages = document["streams"][0]
    messages["schema"]["properties"]["sent_at"] = {"type": "string", "format": "date-time"}
    messages["query"]["range_filters"]["subject"] = ["gte"]
    world.declare(document)
    sent = "2026-02-01T00:00:00Z"
    world.put(
        (PERSONAL, "messages", {"id": "a", "subject": "zz", "sent_at": sent}),
        (PERSONAL, "messages", {"id": "b", "subject": "Zz"}),
    )
    ask = {"who": "alice", "connection_id": PERSONAL}
    assert world.get(LIST, filter__subject__gte="z", **ask).ids == ["a"]
    assert world.get(LIST, filter__sent_at=sent, **ask).ids == ["a"]
    refused = world.get(LIST, filter__received_at__like="2026", **ask).error
    assert refused["message"] == (
        "The field 'received_at' does not declare 'like'; it declares: gte, gt, lte, lt."
    )
    refused = world.get(LIST, filter__id__gte="a", **ask).error
    assert refused["message"].endswith("it declares: none.")


def test_a_filter_accepts_numbers_that_no_record_can_contain(world: World) -> None:
    largest = 2**64 - 1
    world.put((PERSONAL, "messages", {"id": "big", "size_bytes": largest}))
    for value, found in ((largest, ["big"]), (largest + 1, []), (-largest, []), (10**39, [])):
        answer = world.get(LIST, "alice", connection_id=PERSONAL, filter__size_bytes=str(value))
        assert (answer.status, answer.ids) == (200, found)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (LIST, {}),
        ("/v1/streams/messages/aggregate", {"metric": "count"}),
        ("/v1/search", {"q": "lease", "streams": "messages", "connection_id": PERSONAL}),
    ],
)
def test_only_so_many_filters_are_taken_at_once(
    world: World, path: str, query: dict[str, str]
) -> None:
    """Planning a statement costs more than in proportion to its conditions."""
    name = ["Eva Lang"] * 65
    assert world.get(path, filter__from_name=name[1:], **query).status == 200
    assert world.get(path, filter__from_name=name, **query).error["param"] == "filter"


def test_count_is_exact_and_counts_visible_rows_only(world: World) -> None:
    assert world.get(LIST, count="exact").body["meta"]["count"] == {"kind": "exact", "value": 5}
    assert world.get(LIST, count="estimated", connection_id=WORK).body["meta"]["count"] == {
        "kind": "exact",
        "value": 2,
    }


def test_the_window_spans_visible_rows_only(world: World) -> None:
    assert world.get(LIST, window="exact").body["meta"]["window"] == {
        "total": 5,
        "earliest_at": "2026-01-10T09:00:00Z",
        "latest_at": "2026-03-05T18:30:00Z",
    }


def test_without_the_time_field_keys_order_and_no_window_is_shown(world: World) -> None:
    world.grant(
        "frank",
        GrantRequest(
            connection_ids=[PERSONAL],
            streams=[StreamRequest(name="messages", fields=["id", "subject"])],
        ),
    )
    assert world.get(LIST, who="frank").ids == ["m4", "m3", "m2", "m1", "m0"]
    refused = world.get(LIST, who="frank", window="exact")
    assert (refused.status, refused.error["param"]) == (400, "window")
    assert world.get(LIST, who="frank", sort="received_at").error["code"] == "field_not_granted"


def test_an_empty_selection_shows_nothing(world: World) -> None:
    world.grant(
        "gina",
        GrantRequest(
            connection_ids=[PERSONAL],
            streams=[StreamRequest(name="messages", resources=[], fields=[])],
        ),
    )
    assert world.get(LIST, who="gina").ids == []
    world.grant(
        "hugo",
        GrantRequest(
            connection_ids=[PERSONAL],
            streams=[StreamRequest(name="messages", resources=["m2"], fields=[])],
        ),
    )
    assert [each["data"] for each in world.get(LIST, who="hugo").body["data"]] == [{"id": "m2"}]


def test_a_cursor_is_bound_to_its_client_query_and_direction(world: World) -> None:
    cursor = world.get(LIST, limit=1).body["next_cursor"]
    assert world.get(LIST, limit=1, cursor=cursor).ids == ["w2"]
    edited = cursor[:-8] + ("A" if cursor[-8] != "A" else "B") + cursor[-7:]
    for changed in (
        {"cursor": edited},
        {"cursor": cursor, "order": "asc"},
        {"cursor": cursor, "filter__from_name": "Alice"},
        {"cursor": cursor, "connection_id": WORK},
    ):
        answer = world.get(LIST, **changed)
        assert (answer.status, answer.error["code"]) == (400, "invalid_cursor")
    stranger = world.get(LIST, who="alice", connection_id=WORK, cursor=cursor)
    assert "another grant" in stranger.error["message"]
    search = world.get("/v1/search", q="lease", cursor=cursor)
    assert "another kind" in search.error["message"]


def test_a_cursor_outlives_no_revocation(world: World) -> None:
    cursor = world.get(LIST, limit=1).body["next_cursor"]
    assert revoke_grant(world.grants["bob"][0].grant_id, now=NOW)
    assert world.get(LIST, cursor=cursor).error["code"] == "grant_revoked"


def test_a_cursor_of_a_package_that_changed_says_so(world: World) -> None:
    ask = {"who": "dora", "connection_id": PERSONAL, "limit": 1}
    cursor = world.get(LIST, **ask).body["next_cursor"]
    assert revoke_grant(world.grants["dora"][2].grant_id, now=NOW)
    answer = world.get(LIST, **ask, cursor=cursor)
    assert (answer.status, answer.error["code"]) == (410, "cursor_expired")


def test_a_page_ends_early_rather_than_outgrow_max_bytes(world: World) -> None:
    world.put(
        *((WORK, "messages", {"id": f"big{n}", "received_at": f"2026-04-0{n}T00:00:00Z",
            "body_text": "word " * 400}) for n in range(1, 6)))  # fmt: skip
    first = world.get(LIST, max_bytes=4000)
    assert first.body["has_more"] is True
    assert 1 <= len(first.ids) < 5
    second = world.get(LIST, max_bytes=4000, cursor=first.body["next_cursor"])
    assert second.ids[0] not in first.ids
    assert [*first.ids, *second.ids][:2] == ["big5", "big4"]


def test_a_field_too_large_becomes_a_window_that_can_be_read(world: World) -> None:
    world.put((WORK, "messages", {"id": "huge", "received_at": "2026-05-01T00:00:00Z",
        "subject": "Small", "body_text": "日本語🎉" * 20_000}))  # fmt: skip
    record = world.get(LIST, max_bytes=4000).body["data"][0]
    assert record["data"]["subject"] == "Small"
    window = record["data"]["body_text"]
    assert (window["object"], window["truncated"]) == ("field_window_read", True)
    assert window["total_chars"] == 80_000
    read = window["read"]
    answer = world.get(read["route"], field=read["field"], connection_id=read["connection_id"])
    assert answer.body["window"]["total_chars"] == 80_000


def test_three_queries_whatever_the_number_of_connections(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    world.get(LIST)
    # The token with its grants, connections and sources; the rows; four of the ledger, a savepoint. Cold: the declarations too.
    with django_assert_max_num_queries(8):
        assert world.get(LIST).status == 200
    with django_assert_max_num_queries(9):
        assert world.get(LIST, count="exact").status == 200


def test_unknown_routes_and_methods_answer_in_the_envelope(world: World) -> None:
    assert world.get("/v1/nonsense").error["code"] == "not_found"
    assert world.call("POST", LIST).error["code"] == "method_not_allowed"
    assert world.call("HEAD", LIST).status == 200


def test_every_answer_carries_its_request_id(world: World) -> None:
    answer = world.get(LIST)
    assert answer.headers["Request-Id"] == answer.headers["X-Request-Id"]
    assert answer.headers["PDPP-Version"] == "2026-04-06"
    assert world.get(LIST, nope=1).error["request_id"].startswith("req_")


def test_an_unsupported_version_is_refused_before_the_token(world: World) -> None:
    from django.test import Client

    response = Client(headers={"PDPP-Version": "1999-01-01"}).get(LIST)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unsupported_version"
    assert "PDPP-Version" not in response.headers
