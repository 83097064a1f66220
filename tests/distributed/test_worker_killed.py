"""A worker is killed and started again while six clients read and write."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from evidence.access.tokens import create_owner_token
from evidence.errors import IngestStorageError
from evidence.ledger.verification import verify
from evidence.models.owners import acting_for
from evidence.models.records import Record
from tests.distributed.cluster import FIRST_PORT, Node, programs
from tests.distributed.shards import shard_of
from tests.world import NEIGHBOR, NOW, PERSONAL, World, mail

pytestmark = pytest.mark.faults

LIST = "/v1/streams/messages/records"
PORT = "SELECT nodeport FROM pg_dist_shard_placement WHERE shardid = %s"


def worker_of(owner_id: str) -> Node:
    with connection.cursor() as cursor:
        cursor.execute(PORT, [shard_of(owner_id)])
        port = cursor.fetchone()[0]
    binaries = programs()
    assert binaries, "set CITUS_BIN"
    return Node(Path(connection.connection.info.host), port - FIRST_PORT, binaries)


@pytest.fixture
def down(committed: World) -> Iterator[Node]:
    """The worker of the first owner, running again after the test."""
    node = worker_of(committed.owner_id)
    yield node
    node.start_if_stopped()


@pytest.fixture
def neighbor(committed: World) -> World:
    """Another owner, whose rows are on the other worker."""
    with acting_for(NEIGHBOR):
        token = create_owner_token(owner_id=NEIGHBOR, now=NOW)
    return World(NEIGHBOR, {"dora": token})


def read(world: World) -> tuple[int, object]:
    reply = world.get(LIST, "dora", connection_id=PERSONAL)
    return reply.status, reply.ids if reply.status == 200 else reply.error["code"]


def write(world: World, key: str) -> bool:
    try:
        with acting_for(world.owner_id):
            data = mail(key, "2026-02-02T00:00:00Z")
            return world.put((PERSONAL, "messages", data)).created == 1
    except (IngestStorageError, OperationalError):
        return False


def test_a_killed_worker_stops_only_its_owners(
    committed: World, neighbor: World, down: Node
) -> None:
    assert worker_of(NEIGHBOR).port != down.port
    before = read(neighbor)
    stop = threading.Event()
    stored: list[str] = []
    answers: set[tuple[int, str]] = set()

    def client(number: int) -> None:
        for count in range(10_000):
            if stop.is_set():
                break
            if number % 2:
                status, what = read(committed)
                answers.add((status, what if isinstance(what, str) else "ids"))
            elif write(committed, key := f"w{number}-{count}"):
                stored.append(key)
        connection.close()

    with ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, number) for number in range(6)]
        try:
            down.kill()
            assert read(committed) == (503, "service_unavailable")
            assert not write(committed, "during")
            assert read(neighbor) == before
            assert write(neighbor, "meanwhile")
            down.start()
            assert write(committed, "after")
        finally:
            stop.set()
            for each in clients:
                each.result()

    assert read(committed)[0] == 200
    kept = Record.unscoped.filter(connection_id=PERSONAL).values_list("record_key", flat=True)
    assert set(stored) - set(kept) == set()
    assert answers <= {(200, "ids"), (503, "service_unavailable")}, json.dumps(sorted(answers))
    assert verify(committed.owner_id).problems == []
