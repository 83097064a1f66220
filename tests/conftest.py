"""What every test runs under."""

import gc
import io
import os
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.commands import flush
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from django.db.backends.postgresql.operations import DatabaseOperations
from django.template.base import Template
from django.test import Client, override_settings
from django.test import client as django_test_client
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from pytest_django.fixtures import Settings
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from evidence.models import owners
from tests.distributed import cluster

if TYPE_CHECKING:
    from tests.arranged import Arranged
    from tests.world import World

# A property is about answers; on a busy machine a deadline would only find the other tests. CI draws
# the same examples every time: a new find belongs to whoever runs the tests, not to whoever lands.
hypothesis_settings.register_profile(
    "pdpp",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("pdpp")


ASKING = {"db", "transactional_db", "live_server"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark tests by database. Slow tests come first, so that the run does not wait for them at the end."""
    for item in items:
        if ASKING & {*getattr(item, "fixturenames", ())} or item.get_closest_marker("django_db"):
            item.add_marker("database")
        alone = item.get_closest_marker("one_server")
        if alone is not None and cluster.programs() is not None:
            item.add_marker(pytest.mark.skip(reason=alone.args[0]))
    yield
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Collect garbage rarely, and never the tests and modules: it would take a fifth of the CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


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


RENDER = Template._render


@pytest.fixture(scope="session", autouse=True)
def _rendered_templates_are_not_recorded(django_test_environment: None) -> None:
    """Django records each template with a copy of its context, an eighth of a page. No test reads them."""
    Template._render = RENDER


@pytest.fixture(scope="session", autouse=True)
def _passwords_are_hashed_quickly() -> Iterator[None]:
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def _only_tables_with_rows_are_flushed() -> Iterator[None]:
    """After a test without a transaction, truncate few tables instead of all, 0.4 seconds less.

    The rows that Django writes after migrations stay, so they need not be written again.
    """
    truncate, write_again = DatabaseOperations.sql_flush, flush.emit_post_migrate_signal

    def truncate_some(
        operations: DatabaseOperations, style: Any, tables: Sequence[str], **options: Any
    ) -> list[str]:
        quoted = {name: operations.quote_name(name) for name in tables}
        find = " UNION ALL ".join(
            f"(SELECT '{name}' FROM {table} LIMIT 1)"  # noqa: S608 - names of our tables
            for name, table in quoted.items()
        )
        with operations.connection.cursor() as cursor:
            cursor.execute(find)
            changed = [name for (name,) in cursor if name not in WRITTEN_BY_MIGRATE]
        # The table of vectors is created by the first embedding and is no model's, so it is dropped.
        return [
            "DROP TABLE IF EXISTS evidence_passage",
            *truncate(operations, style, changed, **options | {"allow_cascade": True}),
        ]

    def write_missing(*arguments: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM auth_permission)")
            if cursor.fetchone() == (False,):  # a test of backups has truncated everything
                write_again(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", truncate_some)
        patch.setattr(flush, "emit_post_migrate_signal", write_missing)
        yield


WRITTEN_BY_MIGRATE = {"auth_permission", "django_content_type"}


@pytest.fixture(scope="session", autouse=True)
def _tests_act_for_the_first_owner(django_test_environment: None) -> Iterator[None]:
    """Requests, commands and jobs name an owner themselves; what a test calls directly is the first one's."""
    from tests.owners import OWNER_ID

    with pytest.MonkeyPatch.context() as patch, owners.acting_for(OWNER_ID):
        patch.setattr(owners, "new_owner_id", lambda: OWNER_ID)
        yield


@pytest.fixture(scope="session", autouse=True)
def _requests_begin_without_an_owner(django_test_environment: None) -> Iterator[None]:
    """A server does so, too: neither a view nor a body that is streamed may act for the test's owner."""
    ask = Client.request

    def request(client: Client, **environment: Any) -> Any:
        with owners.acting_for(None):
            response = ask(client, **environment)
        if response.streaming:
            response.streaming_content = owners.read_for(None, response.streaming_content)
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", request)
        yield


@pytest.fixture(autouse=True)
def _statements_name_an_owner(django_test_environment: None) -> Iterator[None]:
    """On every connection that this thread uses."""
    from tests.owners import name_the_owner

    with connection.execute_wrapper(name_the_owner):
        yield


@pytest.fixture(autouse=True)
def _requests_keep_the_connection_of_the_test() -> Iterator[None]:
    """A request in the middle of a test would close the connection that holds its transaction.

    Threads of a server close theirs. Django's test client connects the signal again after each of its
    requests, so it gets the same function.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(django_test_client, "close_old_connections", _close_other_connections)
        for moment in (request_started, request_finished):
            moment.disconnect(close_old_connections)
            moment.connect(_close_other_connections)
        yield
        for moment in (request_started, request_finished):
            moment.disconnect(_close_other_connections)
            moment.connect(close_old_connections)


def _close_other_connections(**_signal: object) -> None:
    if not connection.in_atomic_block:
        close_old_connections()


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
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """Keep the databases of a cluster, which has connections of its own to them."""
    return bool(request.config.getvalue("reuse_db")) or cluster.programs() is not None


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Distribute the tables of the test database where the server is a cluster (tests.database)."""
    if cluster.programs() is not None:
        with django_db_blocker.unblock():
            cluster.add_workers(os.environ["DATABASE_URL"], connection.settings_dict["NAME"])
            call_command("distribute", shards=4, stdout=io.StringIO())
            connection.close()  # new sessions have the settings that it saved


@pytest.fixture(scope="session")
def _cast(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> "Arranged[World]":
    """Before a test changes any setting that the rows depend on."""
    from tests.arranged import Arranged
    from tests.world import World  # models can be imported once Django is set up

    with django_db_blocker.unblock():
        return Arranged.by(World.build)


@pytest.fixture(scope="session")
def _cast_beside(_cast: "Arranged[World]", django_db_blocker: DjangoDbBlocker) -> "Arranged[World]":
    """The same with a neighbor in the installation."""
    from tests.arranged import Arranged
    from tests.world import World

    with django_db_blocker.unblock():
        return Arranged.by(World.build_beside)


BESIDE_A_NEIGHBOR = {
    "access",
    "api",
    "distributed",
    "events",
    "ledger",
    "mcp_adapter",
    "scenarios",
    "search",
}
"""Tests of answers. A statement that forgets the owner shows or counts what is the neighbor's."""


def _arranged(request: pytest.FixtureRequest) -> "World":
    folder = request.path.relative_to(request.config.rootpath / "tests").parts[0]
    name = "_cast_beside" if folder in BESIDE_A_NEIGHBOR else "_cast"
    cast: World = request.getfixturevalue(name).again()
    return cast


@pytest.fixture
def world(request: pytest.FixtureRequest, _cast: "Arranged[World]", db: None) -> "World":
    """The cast of ``tests.world``, in the transaction of the test."""
    return _arranged(request)


@pytest.fixture
def committed(
    request: pytest.FixtureRequest, _cast: "Arranged[World]", transactional_db: None
) -> "World":
    """The same where other connections see it, too."""
    return _arranged(request)


@pytest.fixture
def embedder(settings: Settings) -> None:
    """The model of ``tests.embedder``, without which search is lexical."""
    settings.PDPP_EMBEDDER = "tests.embedder.Words"


@pytest.fixture
def embedded(world: "World", embedder: None) -> "World":
    """The same with vectors for its records."""
    if not world.embed():
        pytest.skip(WITHOUT_VECTORS)
    return world
