"""What every test runs under."""

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import override_settings
from hypothesis import settings
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

if TYPE_CHECKING:
    from tests.arranged import Arranged
    from tests.world import World

# A property is about answers; on a busy machine a deadline would only find the other tests. CI draws
# the same examples every time: a new find belongs to whoever runs the tests, not to whoever lands.
settings.register_profile("pdpp", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("pdpp")


_DECLARED: dict[int, Any] = {}
"""What the cast of the tests has declared, by the numbers that its rows have."""
ASKING = {"db", "transactional_db", "live_server"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark what asks the database; in any order, what is long comes first."""
    for item in items:
        if ASKING & {*getattr(item, "fixturenames", ())} or item.get_closest_marker("django_db"):
            item.add_marker("database")
    yield
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_looked_up_once() -> Iterator[None]:
    """WhiteNoise reads about two hundred files wherever a client is made, which is for each request."""
    known: dict[str, StaticFile] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def remember(middleware: WhiteNoiseMiddleware) -> None:
        if not known:
            look(middleware)
            known.update(middleware.files)
        middleware.files = known

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", remember)
        yield


@pytest.fixture(scope="session", autouse=True)
def _passwords_are_hashed_quickly() -> Iterator[None]:
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(autouse=True)
def _nothing_is_known_of_rows_that_another_test_has_made() -> None:
    """What is kept by the number of a row holds for ever in a database, but not over its tests."""
    from evidence.access.ranking import match_counts
    from evidence.models import sources

    match_counts._cache.clear()
    sources._cache.clear()


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


@pytest.fixture(scope="session")
def _cast(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> "Arranged[World]":
    """Before a test changes any setting that the rows depend on."""
    from evidence.models import sources
    from tests.arranged import Arranged
    from tests.world import World  # models can be imported once Django is set up

    with django_db_blocker.unblock():
        sources._cache.clear()
        arranged = Arranged.by(World.build)
        _DECLARED.update(sources._cache)
        return arranged


@pytest.fixture
def world(_cast: "Arranged[World]", db: None) -> "World":
    """The cast of ``tests.world``, in the transaction of the test."""
    return _as_arranged(_cast)


@pytest.fixture
def committed(_cast: "Arranged[World]", transactional_db: None) -> "World":
    """The same where other connections see it, too."""
    return _as_arranged(_cast)


def _as_arranged(cast: "Arranged[World]") -> "World":
    from evidence.models import sources

    sources._cache.update(_DECLARED)
    return cast.again()


@pytest.fixture
def embedded(world: "World") -> "World":
    """The same with vectors for its records."""
    if not world.embed():
        pytest.skip(WITHOUT_VECTORS)
    return world
