"""What every test runs under."""

import gc
import io
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.commands import flush
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from django.db.backends.postgresql.operations import DatabaseOperations
from django.test import override_settings
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from tests.distributed import cluster

if TYPE_CHECKING:
    from tests.arranged import Arranged
    from tests.world import World

# A property is about answers; on a busy machine a deadline would only find the other tests. CI draws
# the same examples every time: a new find belongs to whoever runs the tests, not to whoever lands.
hypothesis_settings.register_profile(
    "pdpp", deadline=None, derandomize=os.environ.get("CI") == "true"
)
hypothesis_settings.load_profile("pdpp")


ASKING = {"db", "transactional_db", "live_server"}
TESTS = Path(__file__).parent
STARTERS = {
    "": ["bench", "browser", "deploy", "events", "faults", "distributed"],
    "cli": ["test_remote_mcp.py", "test_search.py"],
    "demo": ["test_records.py"],
    "importers": [
        "test_calendar_feed.py", "test_databases.py", "test_dav.py", "test_dav_servers.py", "test_feeds.py", "test_imap.py",
        "test_importer_kit.py", "test_mail_twins.py", "test_malicious_exports.py", "test_mirroring.py", "test_outlook.py",
        "test_sandbox.py", "test_source_http.py", "test_source_kit.py", "test_source_sandbox.py",
        "test_sync_changes.py", "test_sync_command.py", "test_text_recognition.py", "test_tracks.py", "test_watches.py", "test_webdav_files.py",
    ],
    "mcp_adapter": ["test_stdio.py"],
    "operations": [
        "test_access_log.py", "test_backup.py", "test_backup_schedule.py", "test_doctor.py", "test_embedded_postgres.py",
        "test_erasing_killed.py", "test_health.py", "test_metrics.py",
        "test_nothing_personal_in_the_log.py", "test_notifications.py", "test_session_store.py",
        "test_telemetry.py",
    ],
    "owner": [
        "consent/test_python_sdk.py", "consent/test_typescript_sdk.py", "pages/test_imports.py",
        "pages/test_account_sign_in.py", "pages/test_live_accounts.py", "pages/test_notifications.py",
        "pages/test_record_html.py",
    ],
    "pdpp_site": [
        "test_connections.py", "test_environment.py", "test_headers.py", "test_mcp_stdio.py",
        "test_request_bodies.py", "test_run.py", "test_settings.py", "test_site.py",
        "test_proxy_sign_in.py", "test_turns_of_callers.py", "test_waits.py", "test_wsgi_bridge.py",
    ],
    "write": ["test_killed.py", "test_memory.py"],
}  # fmt: skip
"""Tests that may start a server, a browser or a process. `make fast` leaves them out."""
LONG = {
    "access": ["test_plans.py"],
    "api": ["test_changes_model.py", "test_search_at_scale.py"],
    "importers": [
        "test_bank_across_formats.py", "test_bank_glued.py", "test_bank_layouts.py", "test_bank_years.py",
        "test_calendar_series.py", "test_demo_year.py", "test_habits.py", "test_import_totals.py",
        "test_outlook.py", "test_takeout.py", "test_text_recognition.py",
    ],
    "operations": ["test_backup.py", "test_backup_schedule.py"],
    "pdpp_site": ["test_hostile_input.py"],
    "search": ["test_verifier.py", "test_work.py"],
    "write": ["test_against_a_model.py", "test_migrations.py"],
}  # fmt: skip
"""Years of records, hostile texts, plans, models and restores: many seconds a file.

They start first, and `make fast` leaves them out.
"""
FIRST = ["slow", "long"]
STARTER_PATHS, LONG_PATHS = (
    {TESTS / folder / name for folder, names in files.items() for name in names}
    for files in (STARTERS, LONG)
)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark tests by database, by what they may start, and by length. Slow and long tests come first."""
    for item in items:
        if ASKING & {*getattr(item, "fixturenames", ())} or item.get_closest_marker("django_db"):
            item.add_marker("database")
        if STARTER_PATHS & {item.path, *item.path.parents}:
            item.add_marker("starter")
        if item.path in LONG_PATHS:
            item.add_marker("long")
    yield
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in FIRST])


def pytest_collection_finish() -> None:
    """Exclude thousands of tests and modules from garbage collection, a twelfth of a test's CPU."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _refuse_starts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refuse servers and processes in a test without the marker, so that `make fast` stays fast."""
    if request.node.get_closest_marker("starter") is not None:
        yield
        return
    _refusing.append(request.node.nodeid)
    yield
    _refusing.pop()


_refusing: list[str] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event in START_EVENTS and _refusing:
        raise AssertionError(f"add {_refusing[0]} to STARTERS in tests/conftest.py: {event}")


START_EVENTS = {"os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"}
sys.addaudithook(_audit)


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


@pytest.fixture(autouse=True)
def _ledger_is_unknown() -> None:
    """A process remembers the ends of chains, and each test has chains of its own."""
    if writer := sys.modules.get("evidence.ledger.writer"):
        writer._heads.clear()
        writer._references.clear()


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
    return bool(request.config.getvalue("reuse_db")) or settings.PDPP_DISTRIBUTED


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Distribute the tables of the test database where the server is a cluster (tests.database)."""
    if settings.PDPP_DISTRIBUTED:
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


@pytest.fixture
def world(_cast: "Arranged[World]", db: None) -> "World":
    """The cast of ``tests.world``, in the transaction of the test."""
    return _cast.again()


@pytest.fixture
def committed(_cast: "Arranged[World]", transactional_db: None) -> "World":
    """The same where other connections see it, too."""
    return _cast.again()


@pytest.fixture
def embedded(world: "World") -> "World":
    """The same with vectors for its records."""
    if not world.embed():
        pytest.skip(WITHOUT_VECTORS)
    return world
