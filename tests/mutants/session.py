"""Faults tried in forks of one session of tests: `python -m tests.mutants.session MODULE… --by TEST…`.

All tests run once, to know which of them reach a line. Then, for each line of the modules that can be
taken away, a fork of this very process loses it, where that can be done to what is loaded, and runs the
tests that reach it, the likeliest first. A fork costs a tenth of a second, a new Python some. Two go on
at once, each with a copy of the database.

One JSON line a fault on standard output: `path`, `line`, `killed`, the `answer` (the test that failed,
or why there is none) and, where it was not killed, `tests`.
"""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Lock
from pathlib import Path
from time import perf_counter
from typing import TextIO

import psycopg
import pytest
from coverage import Coverage

from tests.mutants.faults import Fault, deleted
from tests.mutants.reaching import Reached
from tests.mutants.swapping import Loaded, NotSwappable, forget, functions_loaded, swap

WATCHED = ("evidence/access/*",)
TESTS = (
    "tests/access", "tests/admin", "tests/api", "tests/consent", "tests/events", "tests/ledger",
    "tests/management", "tests/operating", "tests/storing",
    "tests/test_non_interference.py",
)  # fmt: skip
# Generated requests, long pagings and many processes take minutes and look for other faults.
SLOW = (
    "tests/api/test_schemathesis.py", "tests/api/test_paging_model.py", "tests/api/test_bad_input.py",
    "tests/operations/test_doctor.py", "tests/storing/test_killed.py",
)  # fmt: skip
PLAIN = ("-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "--reuse-db")
SECONDS = 60
AT_ONCE = 2
NONE, TOO_LATE = "none", "too late"
CONTROLLED = 20
"""After so many faults each test that finds one must have passed again without any."""


def main(arguments: Sequence[str]) -> int:
    at = arguments.index("--by")
    modules, tests = arguments[:at], arguments[at + 1 :]
    root = Path.cwd()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what pytest says is nobody's answer
    coverage = Coverage(data_file=None, config_file=False, include=[*WATCHED])
    coverage.start()
    faults = deleted(modules, root=root)
    session = Session(root, coverage, list(faults), out)
    ignored = [f"--ignore={each}" for each in SLOW]
    return int(pytest.main([*PLAIN, *ignored, *tests], plugins=[session]))


@dataclass(eq=False)
class Session:
    """A plugin of pytest in place of its own loop over the tests."""

    root: Path
    coverage: Coverage
    faults: Sequence[Fault]
    out: TextIO
    failed: set[str] = field(default_factory=set)
    killers: dict[str, set[str]] = field(default_factory=dict)
    """For each module the tests that found a line of it missing: they may find the next one, too."""
    sound: set[str] = field(default_factory=set)
    one_at_a_time: Lock = field(default_factory=multiprocessing.Lock)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any fault proves nothing."""
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """What an earlier test made a function remember is asked of it again, with or without a fault."""
        forget(self.root / "evidence/access")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {each.nodeid: each for each in session.items if not _commits(each)}
        reached = self._reached(list(items.values()))
        database = _let_go()
        loaded = functions_loaded(self.root / "evidence")
        copies = [_copied(database, number) for number in range(AT_ONCE)]
        children = []
        for number, copy in enumerate(copies):
            child = os.fork()
            if child:
                children.append(child)
                continue
            _use(copy)
            try:
                self._try(self.faults[number::AT_ONCE], items=items, reached=reached, loaded=loaded)
                os._exit(0)
            finally:
                os._exit(1)
        return sum(os.waitpid(child, 0)[1] for child in children) == 0

    def _try(
        self,
        faults: Sequence[Fault],
        *,
        items: Mapping[str, pytest.Item],
        reached: Reached,
        loaded: Loaded,
    ) -> None:
        """Tell of each; raises `RuntimeError` where a test fails without any."""
        for number, fault in enumerate(faults):
            if number % CONTROLLED == 0:
                self.sound.clear()
            before = self.killers.setdefault(fault.path, set())
            names = reached.of(fault.path, fault.line, root=self.root, before=before)
            tests = [items[name] for name in names]
            answer = _in_a_fork(lambda: self._killer(loaded, fault, tests))  # noqa: B023 - waited for
            killed = answer in {*names, TOO_LATE}
            if answer in names:
                self._control(items[answer], before=fault)
                before.add(answer)
            told = {"path": fault.path, "line": fault.line, "killed": killed, "answer": answer}
            line = json.dumps(told | ({} if killed else {"tests": names}))
            with self.one_at_a_time:
                self.out.write(f"{line}\n")

    def _reached(self, items: Sequence[pytest.Item]) -> Reached:
        """Run every test, each as a context of its own; its fixtures are part of it."""
        seconds: dict[str, float] = {}
        for item, following in _with_next(items):
            self.coverage.switch_context(item.nodeid)
            began = perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = perf_counter() - began
        self.coverage.stop()
        data = self.coverage.get_data()
        tests = {
            str(Path(file).relative_to(self.root)): {
                line: [each for each in contexts if each in seconds and each not in self.failed]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        return Reached(tests, seconds)

    def _killer(self, loaded: Loaded, fault: Fault, tests: Sequence[pytest.Item]) -> str:
        """The test that fails, or why there is none."""
        file = self.root / fault.path
        try:
            swap(loaded, file=file, sound=file.read_text(), faulty=fault.text)
        except NotSwappable as reason:
            return f"not swapped: {reason}"
        return _failing(tests)

    def _control(self, test: pytest.Item, *, before: Fault) -> None:
        """A test proves something as long as it passes without a fault."""
        if test.nodeid not in self.sound and _in_a_fork(lambda: _failing([test])) != NONE:
            raise RuntimeError(f"{test.nodeid} fails without {before.wrong}")
        self.sound.add(test.nodeid)


def _in_a_fork(question: Callable[[], str]) -> str:
    """The answer of a process that is this one until then, if it gives one in time."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            os.write(mouth, question().encode())
        finally:
            os._exit(0)  # a fork must not come back from here
    os.close(mouth)
    with os.fdopen(ear) as heard:
        answer = heard.read()
    _, status = os.waitpid(child, 0)
    return TOO_LATE if os.WIFSIGNALED(status) else answer


def _with_next(
    items: Sequence[pytest.Item],
) -> Iterator[tuple[pytest.Item, pytest.Item | pytest.Session]]:
    """Each test and what comes after it: at the end the fixtures of the session stay."""
    return zip(items, [*items[1:], *(each.session for each in items[-1:])], strict=True)


def _failing(items: Sequence[pytest.Item]) -> str:
    """The first test that fails, or `NONE`."""
    for item, following in _with_next(items):
        item.session.testsfailed = 0
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return item.nodeid
    return NONE


def _commits(item: pytest.Item) -> bool:
    """Whether a test leaves rows behind when its process ends in the middle of it."""
    marker = item.get_closest_marker("django_db")
    names = {*getattr(item, "fixturenames", ())}
    return bool(marker and marker.kwargs.get("transaction")) or bool(
        names & {"transactional_db", "live_server"}
    )


def _let_go() -> str:
    """The name of the database; no fork may speak on a connection of this process."""
    from django.db import connection, connections

    connections.close_all()
    return str(connection.settings_dict["NAME"])


def _copied(database: str, number: int) -> str:
    """Forks that run at the same time would wait for each other's rows."""
    copy = f"{database}_{number}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {copy}")  # type: ignore[call-overload] # our own name
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {database}")  # type: ignore[call-overload]
    return copy


def _use(database: str) -> None:
    from django.db import connection

    connection.settings_dict["NAME"] = database


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
