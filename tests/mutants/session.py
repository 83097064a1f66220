"""Faults tried in forks of one session of tests: `python -m tests.mutants.session MODULE… --by TEST…`.

All tests run once, to know which of them reach a line. Then, for each line of the modules that can be
taken away, a fork of this very process loses it, where that can be done to what is loaded, and runs the
tests that reach it, the quickest first. A fork costs a tenth of a second, a new Python some.

One JSON line a fault on standard output: `path`, `line`, `killed` and, where it was not, `tests`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TextIO

import pytest
from coverage import Coverage

from tests.mutants.faults import Fault, deleted
from tests.mutants.reaching import Reached
from tests.mutants.swapping import Loaded, NotSwappable, functions_loaded, swap

WATCHED = ("evidence/access/*",)
TESTS = (
    "tests/access", "tests/admin", "tests/api", "tests/consent", "tests/events", "tests/ledger",
    "tests/management", "tests/operating", "tests/storing",
    "tests/test_non_interference.py",
)  # fmt: skip
# Generated requests, long pagings and many processes take minutes and look for other faults.
SLOW = (
    "tests/api/test_schemathesis.py", "tests/api/test_paging_model.py", "tests/api/test_bad_input.py",
    "tests/api/test_search_at_scale.py", "tests/operating/test_doctor.py", "tests/storing/test_killed.py",
)  # fmt: skip
PLAIN = ("-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "--reuse-db")
SECONDS = 60
NO, YES, BROKEN = 0, 1, 2
CONTROLLED = 20
"""After so many faults it is made sure that the tests still pass without one."""


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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any fault proves nothing."""
        if report.failed:
            self.failed.add(report.nodeid.partition("[")[0])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = _one_a_function(session.items)
        reached = self._reached(list(items.values()))
        _let_go()
        loaded = functions_loaded(self.root / "evidence")
        for number, fault in enumerate(self.faults):
            names = reached.of(fault.path, fault.line, root=self.root)
            tests = [items[name] for name in names]
            if number % CONTROLLED == 0 and _in_a_fork(lambda: _fails(tests)) is not False:  # noqa: B023 - waited for
                raise RuntimeError(f"The sound tree fails before {fault.wrong}")
            killed = _in_a_fork(lambda: self._is_killed(loaded, fault, tests)) is True  # noqa: B023
            told = {"path": fault.path, "line": fault.line, "killed": killed}
            self.out.write(json.dumps(told | ({} if killed else {"tests": names})) + "\n")
        return True

    def _reached(self, items: Sequence[pytest.Item]) -> Reached:
        """Run every test, each as a context of its own; its fixtures are part of it."""
        seconds: dict[str, float] = {}
        for item, following in _with_next(items):
            self.coverage.switch_context(_function(item))
            began = perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[_function(item)] = perf_counter() - began
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

    def _is_killed(self, loaded: Loaded, fault: Fault, tests: Sequence[pytest.Item]) -> bool:
        """Also false where the fault cannot be put into what is loaded."""
        file = self.root / fault.path
        try:
            swap(loaded, file=file, sound=file.read_text(), faulty=fault.text)
        except NotSwappable:
            return False
        return _fails(tests)


def _in_a_fork(question: Callable[[], bool]) -> bool | None:
    """The answer of a process that is this one until then; one that takes too long says yes, and one
    that ends over the question nothing."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            os._exit(YES if question() else NO)
        except BaseException:  # noqa: BLE001 - a fork must not come back from here
            os._exit(BROKEN)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    return {YES: True, NO: False}.get(os.waitstatus_to_exitcode(status))


def _with_next(
    items: Sequence[pytest.Item],
) -> Iterator[tuple[pytest.Item, pytest.Item | pytest.Session]]:
    """Each test and what comes after it: at the end the fixtures of the session stay."""
    return zip(items, [*items[1:], *(each.session for each in items[-1:])], strict=True)


def _fails(items: Sequence[pytest.Item]) -> bool:
    for item, following in _with_next(items):
        item.session.testsfailed = 0
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return True
    return False


def _one_a_function(items: Sequence[pytest.Item]) -> dict[str, pytest.Item]:
    """The first parameters of each test; where these see nothing, all of them are tried later."""
    found: dict[str, pytest.Item] = {}
    for item in items:
        if not _commits(item):
            found.setdefault(_function(item), item)
    return found


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _commits(item: pytest.Item) -> bool:
    """Whether a test leaves rows behind when its process ends in the middle of it."""
    marker = item.get_closest_marker("django_db")
    names = {*getattr(item, "fixturenames", ())}
    return bool(marker and marker.kwargs.get("transaction")) or bool(
        names & {"transactional_db", "live_server"}
    )


def _let_go() -> None:
    """No fork may speak on a connection of this process."""
    from django.db import connections

    connections.close_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
