"""Three PostgreSQL servers with Citus on this machine, thrown away at the end.

``python -m tests.distributed.cluster FOLDER`` starts them until it is interrupted, and prints the
address of the coordinator. CITUS_BIN names the programs of a PostgreSQL with Citus; deploy/citus
shows how to build one.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from operations.postgres import server

FIRST_PORT = 9700
"""Only the number in the name of a socket: the servers listen on no network."""
WORKERS = 2
ROLE = "pdpp"
SETTINGS = {
    "shared_preload_libraries": "citus",
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "work_mem": "16MB",
    "random_page_cost": "1.1",
    "cpu_operator_cost": "0.01",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "gin_pending_list_limit": "64MB",
    "max_connections": "300",
    "max_prepared_transactions": "300",
    "max_locks_per_transaction": "1024",
    "max_worker_processes": "40",
    "wal_level": "logical",  # moves shards while they are written
    "citus.enable_statistics_collection": "off",
    # Disposable data.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",  # moved shards lose commits that are not yet in the WAL
}


def programs() -> Path | None:
    """Return the folder of programs with Citus, if there is one."""
    given = os.environ.get("CITUS_BIN")
    return Path(given) if given else None


class Node:
    """One server; ``start`` and ``kill`` may be called again and again."""

    def __init__(self, home: Path, number: int, binaries: Path) -> None:
        self.home, self.port, self.binaries = home, FIRST_PORT + number, binaries
        self.data = home / f"node{number}"

    def create(self) -> None:
        self._run(
            "initdb", f"--pgdata={self.data}", f"--username={ROLE}", "--auth=trust",
            "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        settings = SETTINGS | {
            "port": str(self.port),
            "unix_socket_directories": str(self.home),
            "citus.local_hostname": str(self.home),  # where a server connects to itself
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        log = self.data / "server.log"
        self._run("pg_ctl", "start", f"--pgdata={self.data}", "--wait", f"--log={log}")

    def start_if_stopped(self) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            self.connect().close()
            return
        self.start()

    def kill(self) -> None:
        """End every process of the server at once, as a power failure does."""
        self.stop("immediate")

    def stop(self, mode: str) -> None:
        self._run("pg_ctl", "stop", f"--pgdata={self.data}", f"--mode={mode}", "--wait")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{ROLE}@/{database}?host={self.home}&port={self.port}"

    def connect(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.url(database), autocommit=True)

    def _run(self, program: str, *arguments: str) -> None:
        account = server.server_account(self.home)
        subprocess.run(
            [str(self.binaries / program), *arguments],
            cwd="/",
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )


class Cluster:
    """A coordinator and two workers in one folder."""

    def __init__(self, home: Path, binaries: Path) -> None:
        self.home = home
        self.nodes = [Node(home, number, binaries) for number in range(WORKERS + 1)]
        self.coordinator, *self.workers = self.nodes

    def start(self) -> None:
        account = server.server_account(self.home)
        if account is not None:
            shutil.chown(self.home, account.pw_uid, account.pw_gid)
        for node in self.nodes:
            node.create()
            node.start()
        add_workers(self.coordinator.url(), "postgres", self.workers)

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.home)


def add_workers(coordinator: str, database: str, workers: list[Node] | None = None) -> None:
    """Add Citus to a database of the coordinator, and a database of this name to each worker.

    Workers default to those that the coordinator's database ``postgres`` knows.
    """
    with psycopg.connect(coordinator, autocommit=True) as connection:
        home, port = connection.info.host, connection.info.port
        addresses = [(str(node.home), node.port) for node in workers or []] or connection.execute(
            "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY 1, 2"
        ).fetchall()
    url = f"postgresql://{ROLE}@/{{}}?host={home}&port={{}}"
    for _, worker_port in addresses:
        with psycopg.connect(url.format("postgres", worker_port), autocommit=True) as worker:
            found = worker.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database])
            if not found.fetchone():
                worker.execute(f'CREATE DATABASE "{database}"'.encode())
        with psycopg.connect(url.format(database, worker_port), autocommit=True) as worker:
            _create_extensions(worker)
    with psycopg.connect(url.format(database, port), autocommit=True) as connection:
        _create_extensions(connection)
        connection.execute("SELECT citus_set_coordinator_host(%s, %s)", [home, port])
        for address in addresses:
            connection.execute("SELECT citus_add_node(%s, %s)", address)


def _create_extensions(session: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Create Citus, and pgvector if it is installed."""
    session.execute("CREATE EXTENSION IF NOT EXISTS citus")
    available = "SELECT FROM pg_available_extensions WHERE name = 'vector'"
    if session.execute(available).fetchone():
        session.execute("CREATE EXTENSION IF NOT EXISTS vector")


def main() -> None:
    binaries = programs()
    if binaries is None:
        sys.exit("Set CITUS_BIN to the programs of a PostgreSQL with Citus (deploy/citus).")
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="pdpp-citus-"))
    home.mkdir(exist_ok=True)
    cluster = Cluster(home.resolve(), binaries)
    cluster.start()
    print(f"DATABASE_URL='{cluster.coordinator.url()}'", flush=True)  # noqa: T201
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
