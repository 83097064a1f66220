"""Measure what idle connections cost, and how soon new mail is visible.

`python -m bench.syncing.idle_cost` runs a server with no, one and ten watched accounts of a local
Dovecot, and prints the memory of its processes (PSS) and their CPU time.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.served import ROOT, free_port
from operations.postgres.server import EmbeddedPostgres, url
from tests.importers.dovecot import PASSWORD, Dovecot, message, run_dovecot

ACCOUNTS = 10
SETTLE_SECONDS, MEASURED_SECONDS = 45.0, 240.0
MAILS = 10
RUN = (
    "from django.core.management import execute_from_command_line as run; import sys; run(sys.argv)"
)
GRANT = """
import django, sys
django.setup()
from datetime import timedelta
from django.utils import timezone
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.tokens import create_token
from evidence.models.accounts import get_or_create_owner
from evidence.models.connections import Connection
now = timezone.now()
pk = Connection.unscoped.order_by("created_at").values_list("pk", flat=True).first()
client = register_client("Reader", owner_id=get_or_create_owner(now).owner_id, now=now)
wanted = GrantRequest(connection_ids=[pk], streams=[StreamRequest(name="messages")])
package, _ = issue([wanted], client=client, now=now)
print(create_token(package, resource="/v1", now=now, expires_at=now + timedelta(hours=1)))
"""


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="pdpp-watch-"))
    database = EmbeddedPostgres(home / "pg", scratch=True)
    database.start()
    try:
        with run_dovecot() as server:
            environment = _environment(home, server)
            _run(environment, "-c", RUN, "migrate", "--verbosity", "0")
            connected = 0
            for count in (0, 1, ACCOUNTS):
                for number in range(connected, count):
                    _connect(server, environment, f"ida{number}@mail.example")
                connected = count
                _measure(count, server, environment)
    finally:
        database.stop()
        shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path, server: Dovecot) -> dict[str, str]:
    return os.environ | {
        "DATABASE_URL": url(home / "pg"),
        "PDPP_VAR": str(home),
        "PDPP_PORT": str(free_port()),
        "PDPP_DEMO": "0",
        "PDPP_LOG_LEVEL": "WARNING",
        "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "SSL_CERT_FILE": str(server.authority),
    }


def _connect(server: Dovecot, environment: dict[str, str], user: str) -> None:
    server.append(user, message(1))
    settings = ("--set", f"user={user}", "--set", "host=localhost", "--set", f"port={server.port}")
    _run(environment, "-c", RUN, "sync", "--connect", "imap", *settings, "--private")


def _measure(count: int, server: Dovecot, environment: dict[str, str]) -> None:
    with _serving(environment) as process:
        time.sleep(SETTLE_SECONDS)
        before = _cpu(process.pid)
        started = time.monotonic()
        time.sleep(MEASURED_SECONDS)
        share = (_cpu(process.pid) - before) / (time.monotonic() - started)
        memory = {name: _memory(pid) for pid, name in _tree(process.pid).items()}
        sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(memory.items()))
        total = sum(memory.values()) / 1e6
        print(f"{count} accounts: {share * 1e3:.2f} ms/s; {total:.1f} MB: {sizes}", flush=True)  # noqa: T201
        if count:
            delays = sorted(_delay(server, environment, number) for number in range(MAILS))
            print(f"new mail visible after {delays[0]:.1f} to {delays[-1]:.1f} s", flush=True)  # noqa: T201


@contextlib.contextmanager
def _serving(environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _delay(server: Dovecot, environment: dict[str, str], number: int) -> float:
    """Return the seconds from a new mail until a client with a grant reads it."""
    token = _run(environment, "-c", GRANT).strip()
    subject = 10_000 + number + int(time.time())
    address = f"http://127.0.0.1:{environment['PDPP_PORT']}/v1/streams/messages/records?limit=100"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    server.append("ida0@mail.example", message(subject))
    started = time.monotonic()
    while True:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
            if f'Letter {subject}"'.encode() in answer.read():
                return time.monotonic() - started
        time.sleep(0.1)


def _tree(pid: int) -> dict[int, str]:
    """Return the processes of the server by the name of their program."""
    found = {pid: "server"}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                program = (path / "cmdline").read_bytes().split(b"\0")[3:4]
                found[int(path.name)] = Path(program[0].decode()).stem if program else "other"
    return found


def _cpu(pid: int) -> float:
    """Return the CPU seconds of the processes, and of those that they have waited for."""
    ticks = 0
    for each in _tree(pid):
        with contextlib.suppress(OSError):
            values = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, values[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _run(environment: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        input=f"{PASSWORD}\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    main()
