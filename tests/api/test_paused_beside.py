"""One grant of a package is paused: its client is told so where it names what only that one shows."""

from typing import Any

import pytest
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from tests.world import BANK, CHAT, PERSONAL, World

TRANSACTIONS = "/v1/streams/transactions/records"
MESSAGES = "/v1/streams/messages/records"
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    (TRANSACTIONS, {}),
    (TRANSACTIONS, {"connection_id": BANK}),
    (TRANSACTIONS, {"connector_id": "account"}),
    (f"{TRANSACTIONS}/b1", {}),
    ("/v1/streams/transactions/aggregate", {"metric": "count"}),
    ("/v1/search", {"q": "salary", "connection_id": BANK}),
    ("/v1/search", {"q": "salary", "streams[]": "transactions"}),
)


@pytest.fixture
def paused(world: World) -> World:
    """Dora may read mail, chat and, for now not, the bank account; Bob some mail and no more."""
    Grant.unscoped.filter(pk=world.grants["dora"][2].pk).update(paused_at=timezone.now())
    return world


@pytest.mark.parametrize(("path", "query"), ASKED)
def test_what_only_the_paused_grant_shows_is_refused_as_paused(
    paused: World, path: str, query: dict[str, Any]
) -> None:
    refused = paused.get(path, "dora", **query)
    assert (refused.status, refused.error["code"]) == (403, "grant_paused")
    assert refused.error["param"] in {
        "stream",
        "connector_id",
        *(each.strip("[]") for each in query),
    }
    assert str(paused.grants["dora"][2].pk) not in str(refused.body)

    Grant.unscoped.update(paused_at=None)
    assert paused.get(path, "dora", **query).status == 200


def test_the_others_go_on(paused: World) -> None:
    assert paused.get(MESSAGES, "dora", connection_id=PERSONAL).status == 200
    found = paused.get("/v1/search", "dora", q="salary OR lease")
    assert found.status == 200
    assert {each["connection_id"] for each in found.body["data"]} == {PERSONAL}


@pytest.mark.parametrize(("path", "query"), ASKED)
def test_a_client_without_such_a_grant_learns_nothing_of_it(
    paused: World, path: str, query: dict[str, Any]
) -> None:
    before = paused.get(path, "bob", **query)
    Grant.unscoped.update(paused_at=None)
    after = paused.get(path, "bob", **query)
    assert before.status == after.status == 404
    assert before.error["code"] == after.error["code"] != "grant_paused"


def test_what_the_paused_grant_does_not_show_or_shows_no_more_is_not_there(paused: World) -> None:
    assert paused.get("/v1/streams/nothing/records", "dora").status == 404
    assert paused.get(TRANSACTIONS, "dora", connection_id="cin_nowhere").status == 404
    assert paused.get(TRANSACTIONS, "dora", connection_id=CHAT).status == 404
    assert paused.get(TRANSACTIONS, "dora", connector_id="mail").status == 404
    assert paused.get(MESSAGES, "dora", connection_id=BANK).error["code"] == "grant_paused"
    Connection.unscoped.filter(pk=BANK).update(status="revoked")
    assert paused.get(TRANSACTIONS, "dora").status == 404
    assert paused.get(TRANSACTIONS, "dora", connection_id=BANK).status == 404


def test_a_paused_stream_of_a_granted_source_is_refused_as_paused(world: World) -> None:
    world.grant(
        "erin",
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")]),
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="threads")]),
    )
    threads = "/v1/streams/threads/records"
    assert world.get(threads, "erin").status == 200
    Grant.unscoped.filter(pk=world.grants["erin"][1].pk).update(paused_at=timezone.now())
    assert world.get(threads, "erin").error["code"] == "grant_paused"
    Grant.unscoped.filter(pk=world.grants["erin"][1].pk).update(revoked_at=timezone.now())
    assert world.get(threads, "erin").error["code"] == "grant_stream_not_allowed"
