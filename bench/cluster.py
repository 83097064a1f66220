"""Measure a cluster, and estimate how many machines a number of owners needs.

    DATABASE_URL=… PDPP_SECRET_KEY=… [PDPP_DISTRIBUTED=true] python -m bench.cluster measure
    python -m bench.cluster model

``measure`` fills an empty, migrated database with the cast of the tests, 2,000 mails for each of two
connections and 40 other connections, and prints medians in milliseconds. ``model`` computes from the constants below, which
docs/scale.md explains.
"""

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import psutil
from psycopg.conninfo import conninfo_to_dict

MAILS = 2_000
REPEATS = 40

# Of an owner of the size of the demo life, reading with a few agents.
RECORDS_PER_OWNER = 12_000
BYTES_PER_RECORD = (
    3_300  # docs/scale.md: records, search text and changes with indexes, at a million
)
REQUESTS_PER_OWNER_AND_DAY = 300
PEAK_FACTOR = 10
BYTES_PER_ANSWER = 1_500  # measured: a ledger row with its indexes and ten pseudonyms
ANSWERS_KEPT_DAYS = 3 * 365
# Measured: CPU milliseconds per request on the coordinator and on workers, a mean over PAGES for one
# connection. The application's own processes come on top.
COORDINATOR_MS = 1.5
WORKER_MS = 1.4
# Of a machine, used to half.
CORES, DISK_BYTES, USED = 16, 4e12, 0.5


@dataclass(frozen=True, slots=True)
class Need:
    """What a number of owners needs, and which part is full first."""

    owners: int
    workers: int
    coordinators: float
    first: str


def estimate(owners: int) -> Need:
    """Return the machines for a number of owners; more than one coordinator cannot be had."""
    per_second = owners * REQUESTS_PER_OWNER_AND_DAY / 86_400 * PEAK_FACTOR
    milliseconds = CORES * 1_000 * USED
    records = owners * RECORDS_PER_OWNER * BYTES_PER_RECORD
    ledger = owners * REQUESTS_PER_OWNER_AND_DAY * ANSWERS_KEPT_DAYS * BYTES_PER_ANSWER
    workers = {
        "disk of the workers": records / (DISK_BYTES * USED),
        "CPU of the workers": per_second * WORKER_MS / milliseconds,
    }
    coordinator = {
        "CPU of the coordinator": per_second * COORDINATOR_MS / milliseconds,
        "disk of the coordinator (the ledger)": ledger / (DISK_BYTES * USED),
    }
    both = coordinator if max(coordinator.values()) > 1 else workers | coordinator
    first = max(both, key=lambda name: both[name])
    return Need(owners, max(2, ceil(max(workers.values()))), max(coordinator.values()), first)


def model() -> None:
    for owners in (1_000, 100_000, 10_000_000):
        need = estimate(owners)
        print(  # noqa: T201
            f"{need.owners:>10,} owners: {need.workers} workers, {need.coordinators:.2f} of a"
            f" coordinator; first full: {need.first}"
        )


def measure() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "pdpp_site.settings"
    os.environ.setdefault("PDPP_DATABASE_POOL", "0")
    import django

    django.setup()
    from django.test.utils import setup_test_environment

    from evidence.access.grant_terms import StreamRequest
    from evidence.access.grants import GrantRequest
    from tests.world import PERSONAL, WORK, World, mail

    setup_test_environment()
    world = World.build()
    others = [f"cin_other{number}" for number in range(40)]
    for connection_id in others:
        world.connect(connection_id, "mail", connection_id)
    started = time.perf_counter()
    for connection_id in (PERSONAL, WORK):
        world.put(
            *(
                (connection_id, "messages",
                 mail(f"k{n:05}", f"2026-0{1 + n % 9}-03T00:00:00Z", body_text=f"word {n} " * 40))
                for n in range(MAILS)
            )
        )  # fmt: skip
    seconds = time.perf_counter() - started
    print(f"ingest: {2 * MAILS / seconds:,.0f} records a second")  # noqa: T201
    for name, ids in (("one", [PERSONAL]), ("four", [PERSONAL, WORK, *others[:2]])):
        request = GrantRequest(connection_ids=ids, streams=[StreamRequest(name="messages")])
        world.grant(name, request)
        for page, (path, query) in PAGES.items():
            ask = partial(world.get, path, name, **query)
            print(f"{page}, {name}: {cost(ask)}")  # noqa: T201


RECORDS = "/v1/streams/messages/records"
PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "list": (RECORDS, {"limit": 25}),
    "search": ("/v1/search", {"q": "word 1999", "limit": 10}),
    "record": (f"{RECORDS}/k00007", {"connection_id": "cin_personal"}),
    "schema and ledger row": ("/v1/schema", {}),
}


def cost(ask: Callable[[], object], repeats: int = REPEATS) -> str:
    """Return the median time, and the CPU time of the servers of tests.distributed.cluster."""
    times = []
    for _ in range(5):
        ask()
    before = _cpu()
    for _ in range(repeats):
        started = time.perf_counter()
        ask()
        times.append(1_000 * (time.perf_counter() - started))
    used = {node: 1_000 * (after - before.get(node, 0)) / repeats for node, after in _cpu().items()}
    cpu = ", ".join(f"{node} {milliseconds:.1f}" for node, milliseconds in sorted(used.items()))
    return f"{statistics.median(times):.1f} ms (CPU: {cpu})"


def _cpu() -> dict[str, float]:
    """Return the seconds that the processes of each server have used, by folder.

    The times of the scheduler, because ``times()`` counts in steps longer than a statement.
    """
    home = Path(str(conninfo_to_dict(os.environ["DATABASE_URL"])["host"]))
    seconds: dict[str, float] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            folder = Path(process.cwd())
            if process.name() == "postgres" and folder.parent == home:
                ran = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
                seconds[folder.name] = seconds.get(folder.name, 0) + ran / 1e9
    return seconds


if __name__ == "__main__":
    {"measure": measure, "model": model}[sys.argv[1]]()
