"""``POST /v1/ingest/{stream}``: lines from a collector, over HTTP."""

import json
from typing import Any

import pytest
from django.test import Client

from evidence import limits
from evidence.models.connections import Connection
from tests.world import BANK, PERSONAL, Answer, World

ROUTE = "/v1/ingest/transactions"


def line(key: str = "n1", **more: Any) -> dict[str, Any]:
    data = {"id": key, "date": "2026-08-01", "amount": 1}
    return {"key": key, "data": data, "emitted_at": "2026-08-01T10:00:00Z"} | more


def post(world: World, *lines: Any, path: str = ROUTE, who: str = "alice", **query: str) -> Answer:
    content = b"\n".join(
        each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines
    )
    response = Client(headers={"Authorization": f"Bearer {world.tokens[who]}"}).post(
        path, content, content_type="application/x-ndjson", query_params=query
    )
    return Answer(response.status_code, response.json(), dict(response.headers))


def test_every_line_is_answered_for(world: World) -> None:
    answer = post(
        world, line(), b"{no", line("n2", data={"id": "other"}), line("n3"), connector_id="account"
    )

    assert answer.status == 200
    body = answer.body
    assert (body["stream"], body["errors"]) == ("transactions", [])
    assert [body[f"records_{each}"] for each in ("attempted", "accepted", "rejected")] == [4, 2, 2]
    assert [(each["input_index"], each["code"]) for each in body["rejections"]] == [
        (1, "malformed_ndjson"),
        (2, "invalid_record_identity"),
    ]
    assert all(each["receipt_id"].startswith("rcp_") for each in body["rejections"])
    assert world.get("/v1/streams/transactions/records/n3", "charlie").status == 200


def test_the_absolute_id_the_alias_and_the_name_of_a_run_are_taken(world: World) -> None:
    answer = post(
        world,
        line(),
        connector_id="https://registry.example/connectors/account",
        connector_instance_id=BANK,
        run_id="run_1",
    )

    assert (answer.status, answer.body["records_accepted"]) == (200, 1)


RFC_2822 = "Sat, 21 Feb 2026 08:00:00 +0000"


def test_value_that_is_not_the_declared_time_is_stored_and_left_out_of_time(world: World) -> None:
    data = {"id": "m9", "received_at": RFC_2822, "subject": "A lease of a plain date"}

    body = post(
        world, {"key": "m9", "data": data}, path="/v1/ingest/messages", connection_id=PERSONAL
    ).body

    assert (body["records_accepted"], body["rejections"]) == (1, [])
    [notice] = body["notices"]
    assert (notice["code"], notice["path"]) == ("time_not_used", "$.data.received_at")
    assert RFC_2822 not in json.dumps(body)
    messages, named = "/v1/streams/messages/records", {"connection_id": PERSONAL}
    shown = world.get(f"{messages}/m9", "dora", **named)
    assert shown.body["data"]["received_at"] == RFC_2822
    assert world.get(messages, "dora", limit=100, order="asc", **named).ids[-1] == "m9"
    since = {"filter[received_at][gte]": "1900-01-01T00:00:00Z"}
    assert "m9" not in world.get(messages, "dora", limit=100, **named, **since).ids
    assert world.get(f"{messages}/m9", "bob", **named).status == 404, "his grant begins in 2026"
    assert "m9" not in world.get(messages, "bob", limit=100).ids


def test_record_that_is_rejected_has_no_notice(world: World) -> None:
    post(world, line(), connection_id=BANK)
    changed = line(data={"id": "n1", "date": "soon", "amount": 1})

    body = post(world, changed, connection_id=BANK).body

    assert [each["code"] for each in body["rejections"]] == ["append_only_conflict"]
    assert body["notices"] == []


def test_changed_record_of_a_stream_that_only_grows_needs_permission(world: World) -> None:
    changed = line(data={"id": "n1", "date": "2026-08-01", "amount": 2})
    post(world, line(), connection_id=BANK)

    [refused] = post(world, changed, connection_id=BANK).body["rejections"]

    assert refused["code"] == "append_only_conflict"
    assert "replace=true" in refused["message"]
    assert post(world, changed, connection_id=BANK, replace="true").body["records_updated"] == 1
    Connection.unscoped.filter(pk=BANK).update(replaces=True)
    assert post(world, line(), connection_id=BANK).body["records_updated"] == 1


def test_the_first_accepted_record_makes_a_draft_active(world: World) -> None:
    Connection.unscoped.filter(pk=BANK).update(status=Connection.Status.DRAFT)

    def status() -> str:
        [row] = world.get("/v1/owner/connections", "alice", connector_id="account").body["data"]
        return str(row["status"])

    post(world, b"{no", connector_id="account")
    assert status() == "draft"
    post(world, line(), connector_id="account")
    assert status() == "active"


@pytest.mark.parametrize(
    ("query", "path", "status", "code", "param"),
    [
        ({}, ROUTE, 400, "invalid_request", "connector_id"),
        ({"connector_id": "nothing"}, ROUTE, 404, "connection_not_found", "connector_id"),
        ({"connection_id": "cin_none"}, ROUTE, 404, "connection_not_found", "connection_id"),
        ({"connector_id": "account"}, "/v1/ingest/nothing", 404, "stream_not_declared", "stream"),
        ({"connector_id": "mail"}, "/v1/ingest/messages", 409, "ambiguous_connection",
         "connection_id"),
        ({"connector_id": "mail", "connector_instance_id": BANK}, ROUTE, 400,
         "connector_instance_connector_mismatch", "connector_id"),
        ({"connector_id": "account", "replace": "perhaps"}, ROUTE, 400, "invalid_request",
         "replace"),
        ({"connector_id": "account", "dry": "1"}, ROUTE, 400, "invalid_request", "dry"),
    ],
)  # fmt: skip
def test_where_they_are_to_go_must_be_clear(
    world: World, query: dict[str, str], path: str, status: int, code: str, param: str
) -> None:
    answer = post(world, line(), path=path, **query)

    assert (answer.status, answer.error["code"], answer.error["param"]) == (status, code, param)


def test_a_connection_that_has_ended_takes_nothing(world: World) -> None:
    Connection.unscoped.filter(pk=PERSONAL).update(status=Connection.Status.REVOKED)
    answer = post(world, line(), path="/v1/ingest/messages", connection_id=PERSONAL)

    assert (answer.status, answer.error["code"]) == (409, "connector_instance_not_writable")


def test_an_oversized_request_is_refused_before_it_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_MAX_BYTES", 10)
    answer = post(world, line(), connector_id="account")

    assert (answer.status, answer.error["code"]) == (413, "resource_limit")
    assert answer.error["type"] == "request_entity_too_large_error"
    assert world.get("/v1/streams/transactions/records/n1", "charlie").status == 404


def test_nobody_but_the_owner_brings_records(world: World) -> None:
    answer = post(world, line(), who="charlie", connector_id="account")

    assert (answer.status, answer.error["code"]) == (403, "permission_error")
