"""A request for one connection asks only the shard of that connection."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.distributed.shards import shard_of, shards_of_statements
from tests.world import PERSONAL, World, mail

pytestmark = pytest.mark.django_db

LIST = "/v1/streams/messages/records"


@pytest.fixture
def one(world: World) -> World:
    """A grant of one connection that has enough records for pages and counts."""
    world.put(
        *(
            (PERSONAL, "messages", mail(f"k{n:03}", f"2026-02-{1 + n % 28:02}T00:00:00Z",
                                        thread_id=f"t{n // 8}", body_text="word " * 50))
            for n in range(60)
        ),
        *((PERSONAL, "threads", {"id": f"t{n}"}) for n in range(8)),
    )  # fmt: skip
    streams = [StreamRequest(name="messages"), StreamRequest(name="threads")]
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL], streams=streams))
    some = StreamRequest(name="messages", resources=["k001", "k002"])
    world.grant("ivan", GrantRequest(connection_ids=[PERSONAL], streams=[some]))
    return world


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "list": (LIST, {"limit": 5}),
    "list with children": ("/v1/streams/threads/records", {"expand": "messages"}),
    "record": (f"{LIST}/k001", {}),
    "window": (f"{LIST}/k001/field-window", {"field": "body_text", "offset_chars": 5}),
    "search": ("/v1/search", {"q": "word", "limit": 3}),
    "search for two words": ("/v1/search", {"q": "word k001", "limit": 3}),
    "changes": (LIST, {"changes_since": "beginning"}),
    "count": (f"{LIST[:-8]}/aggregate", {"metric": "count"}),
    "months": (f"{LIST[:-8]}/aggregate",
               {"metric": "count", "group_by_time": "received_at", "granularity": "month"}),
    "schema": ("/v1/schema", {}),
}  # fmt: skip


@pytest.mark.parametrize("who", ["erin", "ivan"])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_asks_the_shard_of_its_connection(one: World, name: str, who: str) -> None:
    path, query = REQUESTS[name]
    if who == "ivan" and "threads" in path:
        who = "erin"  # ivan reads messages only
    with shards_of_statements() as found:
        reply = one.get(path, who, **query)

    assert reply.status == 200, reply.body
    assert {text: shards for text, shards in found.items() if shards != {shard_of(PERSONAL)}} == {}
    assert found or name == "schema"


def test_later_changes_ask_the_shard_of_their_connection(one: World) -> None:
    first = one.get(LIST, "erin", changes_since="beginning", limit=100)
    one.put((PERSONAL, "messages", mail("k001", "2026-03-03T00:00:00Z", subject="New")))
    with shards_of_statements() as found:
        reply = one.get(LIST, "erin", changes_since=first.body["next_changes_since"])

    assert "k001" in reply.ids
    assert set().union(*found.values()) == {shard_of(PERSONAL)}


def test_counts_for_a_tripwire_ask_the_shard_of_their_connection(one: World, settings: Any) -> None:
    settings.PDPP_TRIPWIRE_RECORDS = 1
    with shards_of_statements() as found:
        reply = one.get(LIST, "erin", limit=5)

    assert reply.status == 200
    assert any("evidence_disclosure d" in text for text in found)
    assert set().union(*found.values()) == {shard_of(PERSONAL)}


def test_imports_and_erasure_ask_the_shard_of_their_connection(one: World) -> None:
    with shards_of_statements() as found:
        one.put((PERSONAL, "messages", mail("k001", "2026-03-03T00:00:00Z", subject="New")))
        deleted = one.send(
            [{"connection_id": PERSONAL, "stream": "messages", "key": "k002", "op": "delete"}]
        )

    assert deleted.deleted == 1
    assert set().union(*found.values()) == {shard_of(PERSONAL)}


def test_an_import_flushes_and_analyzes_its_shard_only(
    one: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.write.reindex.ANALYZE_AFTER_RECORDS", 1)
    shards = []

    def see(
        execute: Callable[..., Any], sql: str, params: Any, many: Any, context: dict[str, Any]
    ) -> Any:
        result = execute(sql, params, many, context)
        if "gin_clean_pending_list" in sql or "ANALYZE" in sql:
            shards.append(context["cursor"].fetchone())
        return result

    with connection.execute_wrapper(see):
        one.put((PERSONAL, "messages", mail("k001", "2026-03-03T00:00:00Z", subject="New")))

    assert shards == [(1,), (3,)]  # one shard of each of three tables is analyzed


def test_connections_lie_on_several_shards(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT connection_id) FROM evidence_record")
        connections = cursor.fetchone()[0]
    assert connections > 1
    assert len({shard_of(f"cin_{number}") for number in range(50)}) == 4
