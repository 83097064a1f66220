"""A collector's token stores records, files and state of its connections, and does nothing else."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from evidence import limits
from evidence.access.grant_lifecycle import suspend_all
from evidence.access.tokens import authenticate, create_collector, revoke_collector
from evidence.api.urls import urlpatterns
from evidence.errors import WrongTokenKind
from evidence.models.grants import Collector
from tests.world import BANK, CHAT, NOW, PERSONAL, WORK, Answer, World

INGEST = "/v1/ingest/messages"
STATE = "/v1/state/mail"
AT_WORK = {"connection_id": WORK}


@pytest.fixture
def work(world: World) -> World:
    """Return the world with a collector for one of the two mailboxes."""
    world.tokens["gmail"] = create_collector("Gmail on the laptop", [WORK], now=NOW)
    return world


def send(
    world: World, method: str, path: str, body: Any, who: str = "gmail", **query: str
) -> Answer:
    lines = body if isinstance(body, list) else [body]
    response = Client(headers={"Authorization": f"Bearer {world.tokens[who]}"}).generic(
        method,
        path,
        "\n".join(json.dumps(line) for line in lines),
        content_type="application/json",
        query_params=query,
    )
    is_json = response.headers.get("Content-Type") == "application/json"
    body = response.json() if is_json else {}
    return Answer(response.status_code, body, dict(response.headers))


def line(key: str) -> dict[str, Any]:
    return {"key": key, "data": {"id": key, "subject": "Sent by a collector"}}


def test_it_stores_records_files_and_state_of_its_connection(work: World) -> None:
    stored = send(work, "POST", INGEST, line("c1"), connector_id="mail")
    file = send(work, "POST", "/v1/blobs", "bytes", connection_id=WORK, stream="messages",
                record_key="c1")  # fmt: skip
    state = send(work, "PUT", STATE, {"state": {"messages": {"cursor": 1}}})

    assert (stored.status, stored.body["records_created"]) == (200, 1)
    assert (file.status, file.body["object"]) == (200, "blob")
    assert (state.status, state.body["connection_id"]) == (200, WORK)
    assert work.get(STATE, "gmail").body["state"] == {"messages": {"cursor": 1}}
    assert work.get("/v1/streams/messages/records/c1", "alice", connection_id=WORK).status == 200


@pytest.mark.parametrize("other", [PERSONAL, CHAT, BANK, "cin_none"])
def test_another_connection_is_as_unknown_as_one_that_never_was(work: World, other: str) -> None:
    named = {"connection_id": other}
    answers = [
        send(work, "POST", INGEST, line("c1"), **named),
        send(work, "POST", "/v1/blobs", "x", stream="messages", record_key="c1", **named),
        send(work, "PUT", STATE, {"state": {}}, **named),
        work.get(STATE, "gmail", **named),
    ]

    for answer in answers:
        assert (answer.status, answer.error["code"]) == (404, "connection_not_found")
        assert "available_connections" not in answer.error
    for connector in ("workspace", "nothing"):
        answer = send(work, "POST", INGEST, line("c1"), connector_id=connector)
        assert (answer.status, answer.error["code"]) == (404, "connection_not_found")
        assert work.get(f"/v1/state/{connector}", "gmail").error["code"] == "connection_not_found"


def test_no_other_route_accepts_it(work: World) -> None:
    """Every route of the API, with names that exist where a name is a stream's or a source's."""
    names = {"stream": "messages", "connector_id": "mail", "connection_id": WORK}
    accepted = set()
    for route in (str(each.pattern) for each in urlpatterns):
        path = "/v1/" + re.sub(r"<\w+:(\w+)>", lambda name: names.get(name[1], "m1"), route)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if send(work, method, path, {}).status not in (401, 403, 404, 405):
                accepted.add((method, path))

    assert accepted == {
        ("GET", "/v1/openapi.json"),
        ("POST", INGEST),
        ("POST", "/v1/blobs"),
        ("GET", STATE),
        ("PUT", STATE),
    }
    for path in (
        "/v1/streams/messages/records",
        "/v1/search?q=lease",
        "/v1/schema",
        "/v1/connectors",
    ):
        assert work.get(path, "gmail").error["code"] == "permission_error"
    grant_id = work.grants["bob"][0].grant_id
    assert work.get(STATE, "gmail", grant_id=grant_id).error["code"] == "permission_error"


@pytest.mark.parametrize("resource", ["/mcp", "/mcp/events"])
def test_it_is_refused_where_agents_come_in(work: World, resource: str) -> None:
    with pytest.raises(WrongTokenKind):
        authenticate(work.tokens["gmail"], resource=resource, now=NOW)


def test_its_deletions_have_a_bound_that_the_owner_does_not_have(
    work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COLLECTOR_DELETIONS", 3)
    keys = [f"k{number}" for number in range(10)]
    send(work, "POST", INGEST, [line(key) for key in keys], **AT_WORK)
    away = [{"key": key, "op": "delete"} for key in keys]

    first = send(work, "POST", INGEST, away[:2], **AT_WORK).body
    second = send(work, "POST", INGEST, away[2:], **AT_WORK).body

    assert (first["records_deleted"], second["records_deleted"]) == (2, 1)
    assert {each["code"] for each in second["rejections"]} == {"too_many_deletions"}
    assert send(work, "POST", INGEST, away[3:4], "alice", connection_id=WORK).body[
        "records_deleted"
    ]
    with time_machine.travel(timezone.now() + timedelta(days=1, minutes=1)):
        assert send(work, "POST", INGEST, away[4:5], **AT_WORK).body["records_deleted"] == 1


def test_a_fifth_of_a_large_stream_may_be_deleted(
    work: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COLLECTOR_DELETIONS", 1)
    keys = [f"k{number}" for number in range(18)]  # with two of the cast
    send(work, "POST", INGEST, [line(key) for key in keys], **AT_WORK)

    away = [{"key": key, "op": "delete"} for key in keys]
    body = send(work, "POST", INGEST, away, **AT_WORK).body

    assert body["records_deleted"] == 4


def test_it_ends_when_it_is_revoked_or_the_server_is_restored(work: World) -> None:
    work.tokens["other"] = create_collector("Other", [PERSONAL], now=NOW)
    gmail = Collector.unscoped.get(name="Gmail on the laptop")
    assert work.get(STATE, "gmail").status == 200
    assert Collector.unscoped.get(pk=gmail.pk).used_at is not None

    assert revoke_collector(gmail.pk, now=NOW)
    assert work.get(STATE, "gmail").status == 401
    assert work.get(STATE, "other").status == 200

    suspend_all(now=NOW)
    assert work.get(STATE, "other").status == 401
