"""``CITUS_BIN=… python -m bench.cluster``: what three nodes of a cluster cost against one server.

Both are PostgreSQL of the same programs and settings on this machine. Each gets an owner of 1,000 mails,
is measured, gets 1,000 other owners of 10 mails and one of 20,000, and is measured again. The figures are
the CPU time of all server processes, since times would depend on what else the machine does.
"""

import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench import results
from bench.served import ROOT

SMALL, OTHERS, OF_OTHERS, LARGE = 1_000, 1_000, 10, 20_000
LONG = 100_000
"""Characters of the one mail that is left out, since each owner would have it."""
ROUNDS, REPEATS = 7, 15
VERIFY = "ledger verify, 100 answers"
CONNECTION = "cin_bench_home"
LIST = "/v1/streams/messages/records"
Figures = dict[str, dict[str, float]]
Deed = Callable[[], object]


def main() -> None:
    """Measure one server and three nodes, and write the tables."""
    from tests.distributed.cluster import programs

    if (binaries := programs()) is None:
        sys.exit("Set CITUS_BIN to the programs of a PostgreSQL with Citus (deploy/citus).")
    found: dict[str, Figures] = {}
    for name, servers in (("one server", one_server), ("three nodes", three_nodes)):
        with servers(binaries) as (url, is_cluster):
            found[name] = _figures(url, is_cluster=is_cluster)
    results.write("A cluster of three nodes", _table(found))


@contextlib.contextmanager
def one_server(binaries: Path) -> Iterator[tuple[str, bool]]:
    from tests.distributed.cluster import Node

    with _home() as home:
        node = Node(home, 0, binaries)
        node.create()
        with (node.data / "postgresql.conf").open("a") as file:
            file.write("shared_preload_libraries = ''\n")
        node.start()
        try:
            yield node.url(), False
        finally:
            node.stop("fast")


@contextlib.contextmanager
def three_nodes(binaries: Path) -> Iterator[tuple[str, bool]]:
    from tests.distributed.cluster import Cluster

    with _home() as home:
        cluster = Cluster(home, binaries)
        cluster.start()
        try:
            yield cluster.coordinator.url(), True
        finally:
            cluster.stop()


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """Yield a folder for servers, which belongs to the account that they run as."""
    import shutil

    from operations.postgres.server import server_account

    home = Path(tempfile.mkdtemp(prefix="pdpp-bench-"))
    if (account := server_account(home)) is not None:
        shutil.chown(home, account.pw_uid, account.pw_gid)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _figures(url: str, *, is_cluster: bool) -> Figures:
    """Create the tables, and measure in a process of its own, whose settings name the database."""
    environment = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        "PDPP_TRIPWIRE_SHARE": "0",
        "PDPP_EMBEDDER": "none",
    }
    run = partial(subprocess.run, cwd=ROOT, env=environment, check=True)
    run([sys.executable, "manage.py", "migrate", "--verbosity", "0"])
    if is_cluster:
        run([sys.executable, "manage.py", "distribute", "--shards", "8"])
    printed = run([sys.executable, "-m", "bench.cluster", "measure"], stdout=subprocess.PIPE)
    figures: Figures = json.loads(printed.stdout.splitlines()[-1])
    return figures


def measure() -> Figures:
    """Load the owners, and return CPU milliseconds by owner and deed."""
    import django

    django.setup()
    small = _owner(SMALL, is_administrator=True)
    figures = {"alone": _measured(small)}
    for _ in range(OTHERS):
        _owner(OF_OTHERS)
    large = _owner(LARGE)
    _vacuum()
    return figures | {"beside": _measured(small), "large": _measured(large)}


def _owner(mails: int, *, is_administrator: bool = False) -> tuple[str, str]:
    """Create an owner with an app that reads everything; return the owner's id and the app's token."""
    from django.utils import timezone

    from demo import generated
    from evidence.access.grant_terms import StreamRequest
    from evidence.access.grants import GrantRequest, issue, register_client
    from evidence.access.tokens import create_token
    from evidence.models.owners import acting_for, create_owner
    from evidence.write.connections import create_connection
    from evidence.write.declaration_store import declare

    now = timezone.now()
    owner_id = create_owner(now, is_administrator=is_administrator).owner_id
    with acting_for(owner_id):
        document = next(d for d in generated.documents() if d["connector_key"] == "benchmail")
        declare(json.dumps(document), owner_id=owner_id, now=now)
        create_connection(
            "benchmail",
            display_name="Mail",
            connection_id=CONNECTION,
            owner_id=owner_id,
            now=now,
        )
        _ingest(owner_id, islice(_mails(mails), mails))
        request = GrantRequest(
            connection_ids=[CONNECTION], streams=[StreamRequest(name="messages")]
        )
        client = register_client("Bench", owner_id=owner_id, now=now)
        package, _ = issue([request], client=client, now=now)
        return owner_id, create_token(package, resource="/v1", now=now)


def _mails(count: int) -> Iterator[dict[str, Any]]:
    """Yield generated mails of one connection, a third of all generated records."""
    from demo import generated

    for each in generated.records(count * 3 + 30):
        if each["connection_id"] == CONNECTION and len(each["data"]["body_text"]) < LONG:
            yield dict(each)


def _ingest(owner_id: str, mails: Iterator[dict[str, Any]]) -> None:
    from django.utils import timezone

    from evidence.write.ingest import ingest_lines
    from evidence.write.ndjson import NdjsonLine

    lines = (NdjsonLine(number, json.dumps(each).encode()) for number, each in enumerate(mails, 1))
    ingest_lines(lines, owner_id=owner_id, now=timezone.now())


def _vacuum() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as session:
        session.execute("VACUUM ANALYZE")


def _measured(owner: tuple[str, str]) -> dict[str, float]:
    """Return the CPU milliseconds of each deed: the median of the rounds."""
    from evidence.ledger.verification import verify
    from evidence.models.owners import acting_for

    with acting_for(owner[0]):
        costs = {name: _cost(deed, repeats) for name, deed, repeats in _deeds(*owner)}
        return costs | {VERIFY: costs[VERIFY] * 100 / verify(owner[0]).rows}


def _deeds(owner_id: str, token: str) -> Iterator[tuple[str, Deed, int]]:
    """Yield what an owner's apps and jobs do, and how often a round does it."""
    from django.test import Client

    from evidence.ledger.verification import verify
    from evidence.models.owners import acting_for

    client = Client(headers={"authorization": f"Bearer {token}", "host": "127.0.0.1:8000"})

    def get(path: str, **query: str | int) -> Any:
        with acting_for(None):
            answer = client.get(path, {"connection_id": CONNECTION, **query})
        if answer.status_code != HTTPStatus.OK:
            raise RuntimeError(answer.content)
        return answer.json()

    def ingest() -> None:
        mails = [each | {"key": secrets.token_hex(8)} for each in sample]
        _ingest(
            owner_id, iter([each | {"data": each["data"] | {"id": each["key"]}} for each in mails])
        )

    sample = list(islice(_mails(100), 100))
    key = get(LIST, limit=1)["data"][0]["id"]
    yield "list of 25", partial(get, LIST, limit=25), REPEATS
    yield "record", partial(get, f"{LIST}/{key}"), REPEATS
    yield "search, a common word", partial(get, "/v1/search", q="project", limit=10), REPEATS
    yield "search, a rare word", partial(get, "/v1/search", q="quillfeather", limit=10), REPEATS
    yield "changes, first page", partial(get, LIST, changes_since="beginning", limit=25), REPEATS
    yield VERIFY, partial(verify, owner_id), 3
    yield "ingest of 100 mails", ingest, 2


def _cost(deed: Deed, repeats: int) -> float:
    for _ in range(3):
        deed()
    rounds = []
    for _ in range(ROUNDS):
        before = _cpu_seconds()
        for _ in range(repeats):
            deed()
        rounds.append((_cpu_seconds() - before) * 1000 / repeats)
    return statistics.median(rounds)


def _cpu_seconds() -> float:
    """Return the CPU time of every running process of the servers."""
    nanoseconds = 0
    home = _socket_folder()
    for process in psutil.process_iter(["name"]):
        if process.info["name"] != "postgres":
            continue
        with contextlib.suppress(psutil.Error, OSError):
            postmaster = process if _is_postmaster(process) else process.parent()
            if postmaster is not None and home in " ".join(postmaster.cmdline()):
                text = Path(f"/proc/{process.pid}/schedstat").read_text()
                nanoseconds += int(text.split()[0])
    return nanoseconds / 1e9


def _is_postmaster(process: psutil.Process) -> bool:
    parent = process.parent()
    return parent is None or parent.name() != "postgres"


def _socket_folder() -> str:
    return str(conninfo_to_dict(os.environ["DATABASE_URL"])["host"])


def _table(found: dict[str, Figures]) -> str:
    one, three = found["one server"], found["three nodes"]
    lines = [
        "| CPU of the servers, ms | one server | three nodes | ratio |",
        "|---|---:|---:|---:|",
    ]
    for name, cost in one["alone"].items():
        other = three["alone"][name]
        lines.append(f"| {name} | {cost:.1f} | {other:.1f} | {other / cost:.1f} |")
    heads = [f"{kind}, {each}" for kind in ("one server", "three nodes") for each in HEADS.values()]
    lines += ["", f"| CPU, ms | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for name in one["alone"]:
        costs = [kind[each][name] for kind in (one, three) for each in HEADS]
        lines.append(f"| {name} | {' | '.join(f'{cost:.1f}' for cost in costs)} |")
    return "\n".join(lines)


HEADS = {"alone": "alone", "beside": "beside others", "large": "the large one"}
"""Columns: an owner of SMALL mails, the same one beside OTHERS and a large one, and the large one."""


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        sys.stdout.write(json.dumps(measure()))
    else:
        main()
