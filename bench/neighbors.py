"""Measure small connections of a cluster before and after a very large one is beside them.

    CITUS_BIN=… PDPP_SECRET_KEY=… python -m bench.neighbors [--large N] [--connections N] [--small N]

Starts a cluster of three nodes in a temporary folder, and prints for each request the shards that
its statements ask, its time, and the CPU time of the nodes: for a connection in the shard of the
large one, for a connection of the other worker, and last for the large one. SQL copies the records,
so that it takes minutes.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.cluster import cost

if TYPE_CHECKING:
    from tests.world import World

LARGE = "cin_large"
WORDS = 2_000
INGESTED = 50
REPEATS = 20
RECORDS = "/v1/streams/messages/records"
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "list": (RECORDS, {"limit": 25}),
    "record": (f"{RECORDS}/k00007", {}),
    "window": (f"{RECORDS}/k00007/field-window", {"field": "body_text", "offset_chars": 5}),
    "search, rare word": ("/v1/search", {"q": "w1234", "limit": 10}),
    "search, a word of every record": ("/v1/search", {"q": "common", "limit": 10}),
    "changes": (RECORDS, {"changes_since": "beginning", "limit": 25}),
    "schema": ("/v1/schema", {}),
}

# Parameters of each: new connections, connection to copy, copies of each record. Copy 0 of a record
# keeps its key and its number.
COPY_RECORDS = """
INSERT INTO evidence_record (connection_id, stream, record_key, data, sort_key, consent_time,
    emitted_at, numbers, times, words, link_1, link_2, link_3, change_seq)
SELECT n.id, r.stream, r.record_key || CASE g WHEN 0 THEN '' ELSE '-' || g END, r.data, r.sort_key,
    r.consent_time, r.emitted_at, r.numbers, r.times, r.words, r.link_1, r.link_2, r.link_3,
    r.change_seq + g * {small}
FROM evidence_record r, unnest(%s::text[]) n(id), generate_series({first}, %s) g
WHERE r.connection_id = %s AND r.change_seq <= {small}
"""
COPY_SEARCH_TEXTS = """
INSERT INTO evidence_searchtext (connection_id, stream, record_key, terms, word_order, authored_at,
    analyser)
SELECT n.id, t.stream, t.record_key || CASE g WHEN 0 THEN '' ELSE '-' || g END, t.terms,
    t.word_order, t.authored_at, t.analyser
FROM evidence_searchtext t, unnest(%s::text[]) n(id), generate_series({first}, %s) g
WHERE t.connection_id = %s AND t.record_key !~ '-'
"""
COPY_CHANGES = """
INSERT INTO evidence_recordchange (connection_id, seq, stream, record_key, kind, recorded_at)
SELECT n.id, c.seq + g * {small}, c.stream,
    c.record_key || CASE g WHEN 0 THEN '' ELSE '-' || g END, c.kind, c.recorded_at
FROM evidence_recordchange c, unnest(%s::text[]) n(id), generate_series({first}, %s) g
WHERE c.connection_id = %s AND c.seq <= {small}
"""
COUNT_RECORDS = """
WITH counted AS (
    UPDATE evidence_connection SET change_seq = %(records)s WHERE connection_id = ANY(%(ids)s)
)
INSERT INTO evidence_streamstate (connection_id, stream, record_count, latest_emitted_at,
    latest_declared_at, updated_at)
SELECT unnest(%(ids)s), stream, %(records)s, latest_emitted_at, latest_declared_at, updated_at
FROM evidence_streamstate WHERE connection_id = %(copied)s
ON CONFLICT (connection_id, stream) DO UPDATE SET record_count = excluded.record_count
"""
SHARD = "SELECT get_shard_id_for_distribution_column('evidence_record', %s::text)"
SIZES = """
SELECT pg_size_pretty(sum(citus_total_relation_size(logicalrelid))) FROM pg_dist_partition
WHERE partmethod = 'h'
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=10_000_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--small", type=int, default=1_000)
    options = parser.parse_args()

    from tests.distributed.cluster import SETTINGS, Cluster, programs

    binaries = programs()
    if binaries is None:
        sys.exit("Set CITUS_BIN to the programs of a PostgreSQL with Citus (deploy/citus).")
    # Deadlocks are looked for by all nodes all the time, also while nothing is measured.
    SETTINGS["citus.distributed_deadlock_detection_factor"] = "-1"
    SETTINGS["maintenance_work_mem"] = "512MB"
    SETTINGS["max_wal_size"] = "4GB"
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="pdpp-neighbors-")), binaries)
    try:
        cluster.start()
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
            "DATABASE_URL": cluster.coordinator.url(),
            "PDPP_DISTRIBUTED": "true",
            "PDPP_DATABASE_POOL": "0",
        }
        run(options.large, options.connections, options.small)
    finally:
        cluster.stop()


def run(large: int, connections: int, small: int) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    from tests.world import World

    setup_test_environment()
    call_command("migrate", verbosity=0)
    call_command("distribute")
    world = World.build()
    ids = [f"cin_small{number:04}" for number in range(connections - 2)]
    near = next(id_ for n in count() if _ask(SHARD, id_ := f"cin_near{n}") == _ask(SHARD, LARGE))
    far = next(id_ for n in count() if _ask(WORKER, id_ := f"cin_far{n}") != _ask(WORKER, LARGE))
    for connection_id in (LARGE, near, far, *ids):
        world.connect(connection_id, "mail", connection_id)
    _seed(world, near, small)
    _copy([far], near, copies=0, small=small)
    names = {"shard of the large one": near, "other worker": far, "large": LARGE}
    for name, connection_id in list(names.items())[:2]:
        _measure(world, f"alone: {name}", connection_id)
    _fill(near, ids, large, small)
    for name, connection_id in names.items():
        _measure(world, f"beside: {name}", connection_id)


WORKER = """
SELECT nodeport FROM pg_dist_shard_placement
WHERE shardid = get_shard_id_for_distribution_column('evidence_record', %s::text)
"""


def _seed(world: "World", connection_id: str, small: int) -> None:
    from tests.world import mail

    draw = random.Random(1)  # noqa: S311 - words of a benchmark
    world.put(
        *(
            (connection_id, "messages", mail(
                f"k{n:05}", f"2026-{1 + n % 9:02}-03T{n % 24:02}:00:00Z", subject=f"Mail {n}",
                body_text="common " + " ".join(f"w{draw.randrange(WORDS)}" for _ in range(8))))
            for n in range(small)
        )
    )  # fmt: skip


def _fill(seed: str, others: list[str], large: int, small: int) -> None:
    started = time.perf_counter()
    for first in range(0, len(others), 100):
        _copy(others[first : first + 100], seed, copies=0, small=small)
    _copy([LARGE], seed, copies=0, small=small)
    _copy([LARGE], LARGE, copies=large // small - 1, small=small)
    for table in ("evidence_record", "evidence_searchtext", "evidence_recordchange"):
        _ask(f"VACUUM ANALYZE {table}")
    print(f"filled in {time.perf_counter() - started:.0f} s, {_ask(SIZES)}", flush=True)  # noqa: T201


def _copy(ids: list[str], copied: str, *, copies: int, small: int) -> None:
    """Copy every record of a connection to others, or ``copies`` times within itself."""
    for statement in (COPY_RECORDS, COPY_SEARCH_TEXTS, COPY_CHANGES):
        text = statement.format(small=small, first=min(copies, 1))
        if ids == [copied]:  # one node does it all
            text = text.replace("n.id,", f"'{copied}',").replace("unnest(%s::text[]) n(id), ", "")
            _ask(text, copies, copied)
        else:
            _ask(text, ids, copies, copied)
    records = (copies + 1) * small
    _ask(COUNT_RECORDS, ids=ids, records=records, copied=copied)


def _measure(world: "World", title: str, connection_id: str) -> None:
    from django.db import transaction

    from evidence.access.grant_terms import StreamRequest
    from evidence.access.grants import GrantRequest
    from tests.distributed.shards import shard_of, shards_of_statements
    from tests.world import mail

    streams = [StreamRequest(name="messages")]
    world.grant("one", GrantRequest(connection_ids=[connection_id], streams=streams))
    asks: dict[str, Callable[[], object]] = {
        name: partial(world.get, path, "one", **query) for name, (path, query) in REQUESTS.items()
    }
    numbers = iter(range(10_000_000))
    asks[f"ingest of {INGESTED}"] = lambda: world.put(
        *((connection_id, "messages", mail(f"{title}-{next(numbers)}", "2026-05-01T00:00:00Z"))
          for _ in range(INGESTED))
    )  # fmt: skip
    for name, ask in asks.items():
        with transaction.atomic(), shards_of_statements() as found:
            ask()
        own = {shard_of(connection_id)}
        wide = [text for text, shards in found.items() if shards - own]
        asked = f"{len(wide)} of {len(found)} statements ask other shards"
        print(f"{title}: {name}: {cost(ask, REPEATS)}; {asked}", *wide, flush=True)  # noqa: T201


def _ask(statement: str, *values: object, **named: object) -> Any:
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement.encode(), named or values or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


if __name__ == "__main__":
    main()
