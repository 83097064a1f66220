"""A copy of the tree with a database of its own, in which faults are planted and tried."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg

from tests.mutants.faults import Fault
from tests.mutants.reaching import PLAIN, Reached

LEFT_OUT = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__")
QUICKEST = 12
"""So many tests are tried at first; the others only if those saw nothing."""
SECONDS_OF_TESTS = 90.0
NOTHING_RAN = 5


@dataclass(frozen=True)
class Tree:
    """Where faults are tried, one after the other."""

    path: Path
    environment: dict[str, str]
    nursery: "subprocess.Popen[str]"
    ticks: "count[int]"

    def kills(self, fault: Fault, reached: Reached | None, *, root: Path) -> bool:
        """Whether a test fails; a run that finds no test is no proof."""
        target = self.path / fault.path
        sound = target.read_text()
        self._write(target, fault.text)
        try:
            return any(self._fails(tests) for tests in _rounds(fault, reached, root=root) if tests)
        finally:
            self._write(target, sound)

    def is_sound(self, reached: Reached | None, fault: Fault) -> bool:
        """Whether the tests for a fault pass where nothing is planted: else what is called killed
        may only have met a database that an earlier fault has broken."""
        path = fault.path
        if reached is None:
            return not self._fails(fault.first)
        tests = {each for found in reached.tests.get(path, {}).values() for each in found}
        quickest = sorted(tests, key=lambda test: reached.seconds[test])[:QUICKEST]
        return not self._fails(quickest)

    def _write(self, target: Path, text: str) -> None:
        """Python tells stale bytecode by the time of the file, which has to differ each time."""
        target.write_text(text)
        at = 1_000_000_000 + next(self.ticks)
        os.utime(target, (at, at))

    def _fails(self, tests: Sequence[str]) -> bool:
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


def _rounds(fault: Fault, reached: Reached | None, *, root: Path) -> list[list[str]]:
    """The tests to try, a few first and then as many as there is time for."""
    if reached is None:
        return [list(fault.first)]
    tests = reached.of(fault.path, fault.line, root=root)
    rest: list[str] = []
    left = SECONDS_OF_TESTS
    for test in tests[QUICKEST:]:
        left -= reached.seconds.get(test, 0.0)
        if left > 0:
            rest.append(test)
    return [list(fault.first), tests[:QUICKEST], rest]
