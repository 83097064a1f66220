"""A pytest plugin for `reaching`: what a test executes is told apart from what others do."""

import json
from collections.abc import Generator
from pathlib import Path
from time import perf_counter

import pytest
from coverage import Coverage

_SECONDS: dict[str, float] = {}
_FAILED: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The fixtures of a test are part of it."""
    running = Coverage.current()
    assert running is not None
    running.switch_context(item.nodeid)
    began = perf_counter()
    answer = yield
    _SECONDS[item.nodeid] = perf_counter() - began
    return answer


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails without any fault proves nothing."""
    if report.failed:
        _FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Leave beside the data what each test took that passes."""
    passed = {test: took for test, took in _SECONDS.items() if test not in _FAILED}
    Path("contexts.json").write_text(json.dumps(passed))
