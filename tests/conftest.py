"""What every test runs under."""

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import settings

if TYPE_CHECKING:
    from tests.world import World

# A property is about answers; on a busy machine a deadline would only find the other tests. CI draws
# the same examples every time: a new find belongs to whoever runs the tests, not to whoever lands.
settings.register_profile("pdpp", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("pdpp")


@pytest.fixture(autouse=True)
def _requests_keep_the_connection_of_the_test() -> Iterator[None]:
    """A request in the middle of a test would close the connection that holds its transaction.

    Django's own test client does the same; this covers every other way in.
    """
    for moment in (request_started, request_finished):
        moment.disconnect(close_old_connections)
    yield
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)


WITHOUT_VECTORS = "this PostgreSQL has no pgvector"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """CI installs whatever a test may need, so there a skipped test is a failed one.

    Vectors are the exception: of the two databases there, one has pgvector and one cannot have it.
    """
    report = yield
    forbidden = report.skipped and not hasattr(report, "wasxfail")
    if os.environ.get("CI") == "true" and forbidden and WITHOUT_VECTORS not in report.longreprtext:
        report.outcome = "failed"
        report.longrepr = f"Skipped, and CI forbids it: {report.longrepr}"
    return report


@pytest.fixture
def world(db: None) -> "World":
    """The cast of ``tests.world``, in the transaction of the test."""
    from tests.world import World  # models can be imported once Django is set up

    return World.build()


@pytest.fixture
def embedded(world: "World") -> "World":
    """The same with vectors for its records."""
    if not world.embed():
        pytest.skip(WITHOUT_VECTORS)
    return world
