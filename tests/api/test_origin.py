"""Every answer with stored text says who wrote it, as far as the grant lets that be known."""

from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import World

MINE = "cin_mine"
ADDRESS = "Alice@Example.org"


@pytest.fixture
def mailbox(world: World) -> World:
    """A mailbox whose owner is known by her address: one record by her, one not, one by nobody."""
    world.connect(MINE, "mail", "Mine", identities=[ADDRESS])
    world.put(
        (MINE, "messages", {"id": "o1", "from_email": "alice@example.org", "body_text": "zebra"}),
        (MINE, "messages", {"id": "o2", "from_email": "eva@example.org", "body_text": "zebra"}),
        (MINE, "messages", {"id": "o3", "from_email": None, "body_text": "zebra"}),
    )
    fields = ("subject", "body_text", "from_email")
    for name, shown in (("whole", fields), ("cut", fields[:2])):
        request = StreamRequest(name="messages", fields=shown)
        world.grant(name, GrantRequest(connection_ids=[MINE], streams=[request]))
    return world


def told(world: World, who: str) -> dict[str, dict[str, str]]:
    """What each route says of each record."""
    listed = world.get("/v1/streams/messages/records", who).body["data"]
    found = world.get("/v1/search", who, q="zebra").body["data"]
    changed = world.get("/v1/streams/messages/records", who, changes_since="beginning").body["data"]
    keys = [record["id"] for record in listed]
    return {
        "list": {record["id"]: record["origin"] for record in listed},
        "changes": {record["id"]: record["origin"] for record in changed},
        "search": {hit["record_key"]: hit["origin"] for hit in found},
        "record": {key: one(world, who, key)["origin"] for key in keys},
        "window": {key: one(world, who, f"{key}/field-window", field="body_text")["origin"]
            for key in keys},
    }  # fmt: skip


def one(world: World, who: str, path: str, **query: Any) -> dict[str, Any]:
    body: dict[str, Any] = world.get(f"/v1/streams/messages/records/{path}", who, **query).body
    return body


def test_every_route_tells_the_owners_records_from_those_of_others(mailbox: World) -> None:
    wrote = {"o1": "owner", "o2": "third_party", "o3": "unknown"}

    assert told(mailbox, "whole") == dict.fromkeys(
        ("list", "changes", "search", "record", "window"), wrote
    )


def test_a_hidden_author_tells_nothing(mailbox: World) -> None:
    for answers in told(mailbox, "cut").values():
        assert set(answers.values()) == {"unknown"}


def test_a_projection_does_not_change_who_wrote(mailbox: World) -> None:
    assert one(mailbox, "whole", "o1", fields="subject")["origin"] == "owner"
