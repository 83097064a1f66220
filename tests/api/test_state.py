"""``/v1/state/{connector}``: what a collector leaves to remember, over HTTP."""

import json
from typing import Any

import pytest
from django.test import Client

from tests.world import CHAT, MAIL, PERSONAL, WORK, Answer, World

STATE = "/v1/state/workspace"
MAILBOXES = "/v1/state/mail"


def put(world: World, body: Any, path: str = STATE, who: str = "alice", **query: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = Client(headers={"Authorization": f"Bearer {world.tokens[who]}"}).put(
        path, content, content_type="application/json", query_params=query
    )
    return Answer(response.status_code, response.json(), dict(response.headers))


def test_what_was_put_comes_back(world: World) -> None:
    left = put(world, {"state": {"messages": {"cursor": "x"}}})

    assert left.status == 200
    assert left.body == world.get(STATE, "alice").body
    assert set(left.body) == {
        "object", "connector_id", "connection_id", "grant_id", "state", "updated_at",
    }  # fmt: skip
    assert (left.body["connector_id"], left.body["connection_id"]) == ("workspace", CHAT)
    assert left.body["grant_id"] is None
    assert left.body["state"] == {"messages": {"cursor": "x"}}


def test_before_the_first_run_there_is_nothing(world: World) -> None:
    body = world.get(STATE, "alice").body

    assert (body["state"], body["updated_at"]) == ({}, None)


def test_the_absolute_id_means_the_same(world: World) -> None:
    put(
        world,
        {"state": {"messages": 1}},
        "/v1/state/https:%2F%2Fregistry.example%2Fconnectors%2Fmail",
        connection_id=WORK,
    )

    assert world.get(MAILBOXES, "alice", connection_id=WORK).body["state"] == {"messages": 1}
    assert MAIL["connector_id"] == "https://registry.example/connectors/mail"


@pytest.mark.parametrize("name", ["connection_id", "connector_instance_id"])
def test_each_connection_has_a_state_of_its_own(world: World, name: str) -> None:
    put(world, {"state": {"messages": {"cursor": "p"}}}, MAILBOXES, **{name: PERSONAL})
    put(world, {"state": {"messages": {"cursor": "w"}}}, MAILBOXES, **{name: WORK})

    kept = world.get(MAILBOXES, "alice", **{name: PERSONAL}).body
    assert (kept["state"], kept["connection_id"]) == ({"messages": {"cursor": "p"}}, PERSONAL)
    other = world.get(MAILBOXES, "alice", **{name: WORK}).body
    assert (other["state"], other["connection_id"]) == ({"messages": {"cursor": "w"}}, WORK)


def test_a_state_of_one_of_several_connections_names_it(world: World) -> None:
    for answer in (
        world.get(MAILBOXES, "alice"),
        put(world, {"state": {"messages": 1}}, MAILBOXES),
    ):
        assert (answer.status, answer.error["code"]) == (409, "ambiguous_connection")
        candidates = [each["connection_id"] for each in answer.error["available_connections"]]
        assert sorted(candidates) == [PERSONAL, WORK]

    for unknown, code in (
        ("cin_none", "connection_not_found"),
        (CHAT, "connector_instance_connector_mismatch"),
    ):
        answer = put(world, {"state": {"messages": 1}}, MAILBOXES, connection_id=unknown)
        assert answer.error["code"] == code


def test_a_grant_has_a_state_of_its_own_within_its_streams(world: World) -> None:
    grant_id, named = world.grants["bob"][0].grant_id, {"connection_id": PERSONAL}
    left = put(world, {"state": {"messages": 1}}, MAILBOXES, grant_id=grant_id, **named)
    assert (left.status, left.body["grant_id"]) == (200, grant_id)
    kept = world.get(MAILBOXES, "alice", grant_id=grant_id, **named)
    assert kept.body["state"] == {"messages": 1}
    assert world.get(MAILBOXES, "alice", **named).body["state"] == {}

    outside = put(world, {"state": {"threads": 1}}, MAILBOXES, grant_id=grant_id, **named)
    assert (outside.status, outside.error["param"]) == (400, "state")


@pytest.mark.parametrize("path", [STATE, "/v1/state/account"])
def test_a_grant_that_is_not_one_of_the_source_is_not_found(world: World, path: str) -> None:
    grant_id = "grt_none" if path == STATE else world.grants["bob"][0].grant_id
    for answer in (
        world.get(path, "alice", grant_id=grant_id),
        put(world, {"state": {}}, path, grant_id=grant_id),
    ):
        assert (answer.status, answer.error["param"]) == (404, "grant_id")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"state": {"nothing": 1}}, 404, "stream_not_declared"),
        ({"state": 5}, 400, "invalid_request"),
        ({}, 400, "invalid_request"),
        ([], 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        ({"state": {"messages": "a\0b"}}, 400, "invalid_request"),
    ],
)
def test_what_cannot_be_kept_is_refused(world: World, body: Any, status: int, code: str) -> None:
    answer = put(world, body)

    assert (answer.status, answer.error["code"]) == (status, code)
    assert world.get(STATE, "alice").body["state"] == {}


def test_an_unknown_connector_is_not_found(world: World) -> None:
    assert world.get("/v1/state/nothing", "alice").error["param"] == "connector_id"


def test_nobody_but_the_owner_remembers(world: World) -> None:
    assert world.get(STATE, "dora").error["code"] == "permission_error"
    assert put(world, {"state": {}}, who="bob").error["code"] == "permission_error"
