"""``/v1/connectors``: what is declared, to each as far as it is granted, and declaring."""

import json
from copy import deepcopy
from typing import Any

import pytest
from django.test import Client

from tests.world import ACCOUNT, BANK, CHAT, MAIL, PERSONAL, Answer, World

LIST = "/v1/connectors"
CODES = "source.declaration."


def post(world: World, document: Any, who: str = "alice", path: str = LIST) -> Answer:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    response = Client(headers={"Authorization": f"Bearer {world.tokens[who]}"}).post(
        path, content, content_type="application/json"
    )
    return Answer(response.status_code, response.json(), dict(response.headers))


def test_each_stream_says_what_works_and_where(world: World) -> None:
    [connector] = world.get(LIST, "bob").body["data"]

    assert (connector["object"], connector["connector_key"]) == ("connector", "mail")
    assert connector["source"] == {"kind": "connector", "id": MAIL["connector_id"]}
    assert connector["stream_count"] == 1
    assert connector["streams"] == [
        {
            "object": "stream",
            "name": "messages",
            "aggregate": True,
            "aggregate_url": "/v1/streams/messages/aggregate",
            "changes_since": True,
            "exact_filters": True,
            "range_filters": True,
            "expand": False,
            "metadata_url": "/v1/streams/messages",
            "records": True,
            "records_url": "/v1/streams/messages/records",
        }
    ]


def test_it_narrows_to_a_connection(world: World) -> None:
    def keys(**query: str) -> list[str]:
        return [each["connector_key"] for each in world.get(LIST, "dora", **query).body["data"]]

    assert keys() == ["account", "mail", "workspace"]
    assert keys(connection_id=CHAT) == ["workspace"]
    assert keys(connector_id="account") == ["account"]
    assert world.get(LIST, "bob", connection_id=CHAT).error["code"] == "connection_not_found"


def test_the_old_name_of_the_connection_works_with_a_warning(world: World) -> None:
    answer = world.get(LIST, "bob", connector_instance_id=PERSONAL)

    assert answer.headers["PDPP-Warning"] == "deprecated_alias_used"


@pytest.mark.parametrize("name", ["account", "https:%2F%2Fregistry.example%2Fconnectors%2Faccount"])
def test_the_owner_gets_back_what_was_declared(world: World, name: str) -> None:
    assert world.get(f"{LIST}/{name}", "alice").body == ACCOUNT


def test_a_connector_that_is_not_declared_is_not_found(world: World) -> None:
    answer = world.get(f"{LIST}/nothing", "alice")

    assert (answer.status, answer.error["code"]) == (404, "not_found")


def test_nobody_but_the_owner_declares_or_reads_declarations(world: World) -> None:
    assert post(world, ACCOUNT, "dora").error["code"] == "permission_error"
    assert world.get(f"{LIST}/account", "charlie").error["code"] == "permission_error"


def test_the_same_document_again_is_taken_and_another_replaces_it(world: World) -> None:
    again = post(world, ACCOUNT)
    assert (again.status, again.body["connector_id"], again.body["changed"]) == (
        200, "account", False)  # fmt: skip

    later = deepcopy(ACCOUNT) | {"version": "1.1.0", "display_name": "My bank"}
    replaced = post(world, later)
    assert (replaced.status, replaced.body["connector_key"]) == (201, "account")
    assert world.get(f"{LIST}/account", "alice").body == later
    [row] = world.get(LIST, "charlie").body["data"]
    assert row["display_name"] == "My bank"
    assert world.get("/v1/streams", "charlie").body["data"][0]["connection_id"] == BANK


@pytest.mark.parametrize("document", [b"{", b"[]", b"\xff", ACCOUNT | {"streams": [{}]}])
def test_what_is_no_declaration_is_refused(world: World, document: Any) -> None:
    answer = post(world, document)

    assert (answer.status, answer.error["code"]) == (400, "connector_invalid")
    assert all(fault["code"].startswith(CODES) for fault in answer.error["faults"])


def test_a_document_that_names_no_connector_is_refused_as_such(world: World) -> None:
    answer = post(world, {"version": "1.0.0", "streams": []})

    assert (answer.status, answer.error["code"], answer.error["param"]) == (
        400, "invalid_request", "connector_key")  # fmt: skip


def test_declarations_are_taken_and_shown_where_the_reference_has_them(world: World) -> None:
    assert post(world, ACCOUNT, path="/connectors").body["connector_key"] == "account"
    assert world.get("/connectors/account", "alice").body == ACCOUNT
    assert world.get("/connectors/nothing", "alice").status == 404
    assert world.get("/connectors/account", "bob").status == 403


def test_declaring_takes_no_parameters(world: World) -> None:
    answer = world.call("POST", LIST, "alice", connection_id=BANK)

    assert (answer.status, answer.error["param"]) == (400, "connection_id")


def test_manifest_with_append_and_seconds_as_consent_time_is_taken(world: World) -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "seen": {"type": "integer", "format": "unix-time"},
            "played": {"type": ["integer", "null"]},
        },
    }
    common = {"semantics": "append", "schema": schema, "primary_key": ["id"]}
    selection = {"selection": {"fields": True, "resources": True}}
    document = {
        "protocol_version": "0.1.0",
        "connector_key": "games",
        "connector_id": "https://registry.example/connectors/games",
        "version": "1",
        "display_name": "Games",
        "streams": [
            {"name": name, "consent_time_field": field, **common, **selection}
            for name, field in (("seconds", "seen"), ("unsaid", "played"))
        ],
    }

    assert post(world, document).status == 201

    world.connect("cin_games", "games", "Games")
    for name, code in (("seconds", []), ("unsaid", ["time_not_used"])):
        data = {"id": "g", "seen": 1_780_000_000, "played": 1_780_000_000}
        ingested = Client(headers={"Authorization": f"Bearer {world.tokens['alice']}"}).post(
            f"/v1/ingest/{name}?connection_id=cin_games",
            json.dumps({"key": "g", "data": data}),
            content_type="application/x-ndjson",
        )
        assert [each["code"] for each in ingested.json()["notices"]] == code
        after = {"connection_id": "cin_games", "after": "2026-05-01"}
        found = world.get(f"/v1/streams/{name}/records", "alice", **after)
        assert found.ids == ([] if code else ["g"])
    described = world.get("/v1/streams/seconds", "alice", connection_id="cin_games").body
    assert described["semantics"] == "append_only"
