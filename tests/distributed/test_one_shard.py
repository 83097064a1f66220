"""Each statement of a request asks one shard, where the rows of its owner are."""

from typing import Any

import pytest
from mcp import Client

from tests import test_non_interference as asked
from tests.distributed.shards import ranges, shard_of, shards_of_statements
from tests.mcp_adapter import real
from tests.world import PERSONAL, World, mail

pytestmark = pytest.mark.django_db


def elsewhere(world: World, found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the statements that ask another shard than the owner's."""
    assert found
    own = ranges([shard_of(world.owner_id)])
    return {text: shards for text, shards in found.items() if shards != own}


def test_routes_ask_the_shard_of_their_owner(world: World) -> None:
    terms = asked.ALL_FIELDS
    with shards_of_statements() as found:
        statuses = {world.get(path, "dora", **query).status for path, query in asked.routes(terms)}

    assert 200 in statuses
    assert not {status for status in statuses if status >= 500}
    assert elsewhere(world, found) == {}


def test_tools_ask_the_shard_of_their_owner(world: World) -> None:
    async def work(client: Client) -> list[Any]:
        return [await client.call_tool(name, arguments) for name, arguments in asked.TOOLS_ASKED]

    with shards_of_statements() as found:
        results = real.ask(world.tokens["dora@mcp"], work)

    assert not all(result.is_error for result in results)
    assert elsewhere(world, found) == {}


def test_imports_changes_and_erasure_ask_the_shard_of_their_owner(world: World) -> None:
    path = "/v1/streams/messages/records"
    bookmark = world.get(path, "dora", changes_since="beginning", connection_id=PERSONAL).body
    with shards_of_statements() as found:
        world.put((PERSONAL, "messages", mail("m1", "2026-03-03T00:00:00Z", subject="New")))
        later = world.get(
            path, "dora", changes_since=bookmark["next_changes_since"], connection_id=PERSONAL
        )
        deleted = world.send(
            [{"connection_id": PERSONAL, "stream": "messages", "key": "m1", "op": "delete"}]
        )

    assert "m1" in later.ids
    assert deleted.deleted == 1
    assert elsewhere(world, found) == {}
