"""The owner lists and renames their own connections; nobody else does."""

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.owners import OWNER_ID
from tests.world import BANK, CHAT, PERSONAL, WORK, Answer, World

LIST = "/v1/owner/connections"


def patch(world: World, connection_id: str, body: Any, who: str = "alice") -> Answer:
    response = Client(headers={"Authorization": f"Bearer {world.tokens[who]}"}).patch(
        f"{LIST}/{connection_id}", json.dumps(body), content_type="application/json"
    )
    return Answer(response.status_code, response.json(), dict(response.headers))


def test_the_owner_lists_connections_by_connector_and_status(world: World) -> None:
    def ids(**query: str) -> list[str]:
        return [row["connection_id"] for row in world.get(LIST, "alice", **query).body["data"]]

    assert set(ids()) == {PERSONAL, WORK, CHAT, BANK}
    assert ids(connector_id="mail") == [PERSONAL, WORK]
    assert ids(connector_id="https://registry.example/connectors/mail") == [PERSONAL, WORK]
    assert ids(connector_id="nothing") == []
    assert ids(connector_id="mail", status="revoked") == []
    assert world.get(LIST, "alice", status="gone").error["param"] == "status"
    [rename] = world.get(LIST, "alice", connector_id="account").body["data"][0]["supported_actions"]
    assert (rename["family"], rename["method"]) == ("rename", "PATCH")
    assert rename["url"] == f"{LIST}/{BANK}"


def test_a_new_label_is_seen_by_clients_at_once(world: World) -> None:
    answer = patch(world, BANK, {"display_name": " Savings "})

    assert (answer.status, answer.body["display_name"]) == (200, "Savings")
    [row] = world.get("/v1/streams", "charlie").body["data"]
    assert row["display_name"] == "Savings"


def test_response_shows_whether_the_owner_chose_the_label(world: World) -> None:
    def labels() -> dict[str, str]:
        rows = world.get(LIST, "alice").body["data"]
        return {row["connection_id"]: row["label_status"] for row in rows}

    call_command(
        "connect", "account", "--owner", OWNER_ID, "--name", "Savings", "--id", "cin_named"
    )
    assert labels()["cin_named"] == "owner_set"
    assert labels()[BANK] == "fallback"
    assert patch(world, BANK, {"display_name": "Bank account"}).body["label_status"] == "owner_set"
    assert labels()[BANK] == "owner_set"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "display_name"),
        ({"display_name": ""}, "display_name"),
        ({"display_name": 7}, "display_name"),
        ({"display_name": "x" * 201}, "display_name"),
        ({"display_name": "x", "status": "revoked"}, "status"),
    ],
)
def test_what_is_no_label_is_refused(world: World, body: Any, param: str) -> None:
    answer = patch(world, BANK, body)

    assert (answer.status, answer.error["param"]) == (400, param)


def test_only_the_owner_may(world: World) -> None:
    assert world.get(LIST, "dora").status == 403
    assert patch(world, BANK, {"display_name": "Mine"}, who="charlie").status == 403
    assert patch(world, "cin_nowhere", {"display_name": "Mine"}).error["code"] == (
        "connection_not_found"
    )
