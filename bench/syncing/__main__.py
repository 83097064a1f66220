"""`make sync-large`: sync a large mailbox from a local Dovecot, and print rates.

MAILS (default 50000) is the number of messages of about 3 kB. The bare client downloads the same
messages with the same requests, and does nothing with them. During the first sync, another client
adds, reads, moves and deletes messages.
"""

import contextlib
import os
import re
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.importing.__main__ import PROGRAM
from bench.served import ROOT
from operations.postgres.server import EmbeddedPostgres, url
from tests.importers.dovecot import PASSWORD, Dovecot, message, run_dovecot

USER = "ida@mail.example"
TEXT = (
    "The invoice for the bicycle was paid on Monday, and the meeting moves to the new office. " * 25
)
GROUP = 100


def main() -> int:
    """Return 0 if every message was stored once."""
    count = int(os.environ.get("MAILS") or 50_000)
    home = Path(tempfile.mkdtemp(prefix="pdpp-sync-"))
    database = EmbeddedPostgres(home / "pg", scratch=True)
    database.start()
    try:
        with run_dovecot() as server:
            server.fill(USER, _messages(count))
            return _measure(server, count, _environment(home, server))
    finally:
        database.stop()
        shutil.rmtree(home, ignore_errors=True)


def _messages(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield message(number, text=f"{TEXT}{number * 7919}")


def _environment(home: Path, server: Dovecot) -> dict[str, str]:
    return os.environ | {
        "DATABASE_URL": url(home / "pg"),
        "PDPP_DATABASE_POOL": "0",
        "PDPP_VAR": str(home),
        "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "SSL_CERT_FILE": str(server.authority),
    }


def _measure(server: Dovecot, count: int, environment: dict[str, str]) -> int:
    _run(environment, "migrate", "--verbosity", "0")
    _download(server)  # the server reads and numbers its files
    _report("bare client", count, _download(server))
    server.append(USER, message(count), folder="Archive")
    settings = ("--set", f"user={USER}", "--set", "host=localhost", "--set", f"port={server.port}")
    started = time.monotonic()
    with _changing(server) as changes:
        said = _run(environment, "sync", "--connect", "imap", *settings, "--private")
    _report("first sync", count, time.monotonic() - started)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    sys.stdout.write(f"{said}largest process {peak:.0f} MiB, {cpu:.0f} s of CPU\n")
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}, {len(changes)} changes by another client\n")
    started = time.monotonic()
    again = _run(environment, "sync", "--all")
    sys.stdout.write(f"second sync: {time.monotonic() - started:.1f} s\n{again}")
    found = re.search(r"([\d,]+) items known", again)
    return int(found is None or int(found[1].replace(",", "")) != _count(server))


@contextlib.contextmanager
def _changing(server: Dovecot) -> Iterator[list[int]]:
    """Let another client change the mailbox during the block. Yields the numbers of its changes."""
    done: list[int] = []
    stopped = threading.Event()

    def change() -> None:
        with server.client(USER) as client:
            client.select()
            while not stopped.wait(1.0):
                number = len(done) + 1
                client.append("INBOX", "", None, message(1_000_000 + number))
                client.uid("STORE", str(10 * number), "+FLAGS", r"(\Seen)")
                client.uid("MOVE", str(10 * number + 1), "Archive")
                client.uid("STORE", str(10 * number + 2), "+FLAGS", r"(\Deleted)")
                client.expunge()
                done.append(number)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield done
    finally:
        stopped.set()
        thread.join()


def _count(server: Dovecot) -> int:
    """Return the number of messages in the folders that are read."""
    with server.client(USER) as client:
        answers = [client.status(name, "(MESSAGES)")[1][0] for name in ("INBOX", "Archive")]
    return sum(int(re.findall(rb"\d+", answer)[-1]) for answer in answers)


def _download(server: Dovecot) -> float:
    started = time.monotonic()
    with server.client(USER) as client:
        client.select(readonly=True)
        uids = client.uid("SEARCH", "ALL")[1][0].split()
        for start in range(0, len(uids), GROUP):
            chosen = b",".join(uids[start : start + GROUP]).decode()
            client.uid("FETCH", chosen, "(UID FLAGS BODY.PEEK[])")
    return time.monotonic() - started


def _report(what: str, count: int, seconds: float) -> None:
    sys.stdout.write(f"{what}: {count:,} in {seconds:.1f} s, {count / seconds:,.0f} per second\n")


def _run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        input=f"{PASSWORD}\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
