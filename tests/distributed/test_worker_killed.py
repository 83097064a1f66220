"""A worker is killed and started again while six clients read and write."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection

from evidence.errors import IngestStorageError
from evidence.ledger.verification import verify
from evidence.models.records import Record
from tests.distributed.cluster import FIRST_PORT, Node, programs
from tests.world import BANK, CHAT, PERSONAL, WORK, World, mail

pytestmark = pytest.mark.faults

PORT_OF_CONNECTION = """
SELECT nodeport FROM pg_dist_shard_placement
WHERE shardid = get_shard_id_for_distribution_column('evidence_record', %s)
"""
STREAMS = {PERSONAL: "messages", WORK: "messages", CHAT: "messages", BANK: "transactions"}


def worker_of(connection_id: str) -> Node:
    with connection.cursor() as cursor:
        cursor.execute(PORT_OF_CONNECTION, [connection_id])
        port = cursor.fetchone()[0]
    binaries = programs()
    assert binaries, "set CITUS_BIN"
    home = Path(connection.connection.info.host)
    return Node(home, port - FIRST_PORT, binaries)


@pytest.fixture
def down(committed: World) -> Iterator[Node]:
    """The worker of PERSONAL, running again after the test."""
    node = worker_of(PERSONAL)
    yield node
    node.start_if_stopped()


def read(world: World, connection_id: str) -> tuple[int, object]:
    path = f"/v1/streams/{STREAMS[connection_id]}/records"
    reply = world.get(path, "dora", connection_id=connection_id)
    return reply.status, reply.ids if reply.status == 200 else reply.error["code"]


def write(world: World, connection_id: str, key: str) -> bool:
    try:
        data = mail(key, "2026-02-02T00:00:00Z")
        return world.put((connection_id, "messages", data)).created == 1
    except IngestStorageError:
        return False


def test_a_killed_worker_stops_only_its_connections(committed: World, down: Node) -> None:
    up = [id_ for id_ in STREAMS if worker_of(id_).port != down.port]
    assert up
    before = {id_: read(committed, id_) for id_ in STREAMS}
    stop = threading.Event()
    stored: list[str] = []
    statuses: set[tuple[int, str]] = set()

    def client(number: int) -> None:
        for count in range(10_000):
            if stop.is_set():
                break
            if number % 2:
                status, what = read(committed, list(STREAMS)[count % len(STREAMS)])
                statuses.add((status, what if isinstance(what, str) else "ids"))
            elif write(committed, PERSONAL, key := f"w{number}-{count}"):
                stored.append(key)
        connection.close()

    with ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, number) for number in range(6)]
        try:
            down.kill()
            assert read(committed, PERSONAL) == (503, "service_unavailable")
            assert not write(committed, PERSONAL, "during")
            assert {id_: read(committed, id_) for id_ in up} == {id_: before[id_] for id_ in up}
            down.start()
            assert write(committed, PERSONAL, "after")
        finally:
            stop.set()
            for each in clients:
                each.result()

    assert read(committed, PERSONAL)[0] == 200
    kept = Record.unscoped.filter(connection_id=PERSONAL).values_list("record_key", flat=True)
    assert set(stored) - set(kept) == set()
    assert statuses <= {(200, "ids"), (503, "service_unavailable")}, json.dumps(sorted(statuses))
    assert verify(committed.owner_id).problems == []
