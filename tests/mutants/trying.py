"""A copy of the tree with a database of its own, in which faults are planted and tried."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import psycopg

from tests.mutants.faults import Fault, deleted
from tests.mutants.session import PLAIN

LEFT_OUT = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__")
NOTHING_RAN = 5


@dataclass(frozen=True)
class Tree:
    """Where faults are tried, one after the other."""

    path: Path
    environment: dict[str, str]
    nursery: "subprocess.Popen[str]"
    ticks: "count[int]"

    def kills(self, fault: Fault) -> bool:
        """Whether a test fails; a run that finds no test is no proof."""
        target = self.path / fault.path
        sound = target.read_text()
        self._write(target, fault.text)
        try:
            return self._fails(fault.first)
        finally:
            self._write(target, sound)

    def is_sound(self, fault: Fault) -> bool:
        """Whether the tests for a fault pass where nothing is planted: else what is called killed
        may only have met a database that an earlier fault has broken."""
        return not self._fails(fault.first)

    def tried_in_forks(
        self, modules: Sequence[str], *, by: Sequence[str]
    ) -> Iterator[tuple[Fault, bool]]:
        """Each line of the modules taken away in a fork of one session, and whether a test failed;
        a fault that none did comes with the tests that reach it. Raises `RuntimeError`."""
        faults = {(each.path, each.line): each for each in deleted(modules, root=self.path)}
        log = self.path / "session.log"
        with log.open("w") as complaints, subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.session", *modules, "--by", *by], cwd=self.path,
            env=self.environment, stdout=subprocess.PIPE, stderr=complaints, text=True,
        ) as session:  # fmt: skip
            assert session.stdout is not None
            for line in session.stdout:
                told = json.loads(line)
                fault = faults.pop((told["path"], told["line"]))
                yield replace(fault, first=tuple(told.get("tests", ()))), told["killed"]
        if faults:
            raise RuntimeError(f"The tests do not run:\n{log.read_text()[-3000:]}")

    def _write(self, target: Path, text: str) -> None:
        """Python tells stale bytecode by the time of the file, which has to differ each time."""
        target.write_text(text)
        at = 1_000_000_000 + next(self.ticks)
        os.utime(target, (at, at))

    def _fails(self, tests: Sequence[str]) -> bool:
        if not tests:
            return False
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(json.dumps(["-x", *PLAIN, *tests]) + "\n")
        self.nursery.stdin.flush()
        code = int(self.nursery.stdout.readline())
        return code not in (0, NOTHING_RAN)


def copied(root: Path, home: Path, *, name: str, database: str) -> Tree:
    """A copy of the tree in `home`; `database` is the URL of the server's own database."""
    path = home / name
    shutil.copytree(root, path, ignore=shutil.ignore_patterns(*LEFT_OUT))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload] # our own name
    environment = os.environ | {
        "DATABASE_URL": database.replace("/postgres", f"/{name}", 1),
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "PDPP_SECRET_KEY": "only-for-faults-" * 4,
        "PDPP_DATABASE_POOL": "0",
    }
    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.mutants.nursery"], cwd=path, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return Tree(path, environment, nursery, count())
