"""Servers as the shipped units start them: processes, with the environment that a unit gives."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.deploy.shipped import ROOT, Unit, unit

START_SECONDS = 300
SECRET_KEY = "only-for-tests-" * 4
WORLD = """
import json, django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests.world import World
print(json.dumps(World.build().tokens))
"""


@contextlib.contextmanager
def database() -> Iterator[str]:
    """A new, empty database on the server of this run; its URL."""
    server = os.environ["DATABASE_URL"]
    name = f"pdpp_{secrets.token_hex(6)}"
    quoted = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
    try:
        yield named(server, database=name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(quoted))


@contextlib.contextmanager
def own_var() -> Iterator[Path]:
    """For what has an embedded database. Not pytest's directory, which every other run of it closes
    to the account of the database, where this one is root's."""
    with tempfile.TemporaryDirectory(prefix="pdpp-") as directory:
        yield Path(directory) / "var"


def named(url: str, *, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def environment(**more: str) -> dict[str, str]:
    """Nothing of ours but what is given."""
    ours = ("PDPP_", "DATABASE_URL", "DJANGO_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return inherited | more


def cast(url: str) -> dict[str, str]:
    """Migrates a database and puts the cast of ``tests.world`` there; the tokens."""
    given = environment(
        DATABASE_URL=url, PDPP_SECRET_KEY=SECRET_KEY, DJANGO_SETTINGS_MODULE="pdpp_site.settings"
    )
    made = subprocess.run(
        [sys.executable, "-c", WORLD], cwd=ROOT, env=given, capture_output=True, check=True
    )
    tokens: dict[str, str] = json.loads(made.stdout)
    return tokens


@dataclass
class Served:
    """A server that has said that it answers, and all that it prints."""

    process: "subprocess.Popen[bytes]"
    port: int
    journal: TextIO
    lines: list[str] = field(default_factory=list)
    answering: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    watched: list[tuple[str, threading.Event]] = field(default_factory=list)

    def watch_for(self, words: str, said: threading.Event) -> None:
        """Sets an event once a line has these words."""
        self.watched.append((words, said))

    def follow(self) -> None:
        for line in self.journal:
            self.lines.append(line)
            if "PDPP is ready" in line:
                self.answering.set()
            for words, said in self.watched:
                if words in line:
                    said.set()
        self.ended.set()
        self.answering.set()

    @property
    def printed(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def started(service: Unit, *, port: int, **more: str) -> Iterator[Served]:
    """The server of a unit until the block ends, when it gets what systemd sends."""
    reading, writing = os.pipe()
    journal = os.fstat(writing)
    chosen = {
        **service.environment,
        "JOURNAL_STREAM": f"{journal.st_dev}:{journal.st_ino}",
        "PDPP_PORT": str(port),
        **more,
    }
    process = subprocess.Popen(
        service.command,
        cwd=service.one("WorkingDirectory"),
        env=environment(**chosen),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.STDOUT,
    )
    os.close(writing)
    server = Served(process, port, os.fdopen(reading))
    reader = threading.Thread(target=server.follow)
    reader.start()
    try:
        assert server.answering.wait(START_SECONDS), server.printed
        assert not server.ended.is_set(), server.printed
        yield server
    finally:
        process.terminate()
        process.wait(float(service.one("TimeoutStopSec")))
        reader.join()
        server.journal.close()


@contextlib.contextmanager
def one_of_several(var: Path, *, port: int, url: str, **more: str) -> Iterator[Served]:
    """``pdpp@PORT`` on a database."""
    service = unit("pdpp@.service", var=var, instance=str(port))
    assert service.environment["PDPP_PORT"] == str(port)
    given = {"DATABASE_URL": url, "PDPP_SECRET_KEY": SECRET_KEY, **more}
    with started(service, port=port, **given) as server:
        yield server
