"""Slow reads are cancelled with an error."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, connections, transaction
from pytest_django.fixtures import Settings

from evidence.access.sql import time_limited_transaction
from tests.world import PERSONAL, World

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/v1/streams/messages/records"


@pytest.fixture
def committed(transactional_db: None, request: pytest.FixtureRequest) -> World:
    """The world, committed, because a time limit needs a transaction of its own."""
    world: World = request.getfixturevalue("world")
    return world


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Lock a table in another transaction, so that readers wait."""
    is_locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            is_locked.set()
            release.wait(15)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert is_locked.wait(30)
        yield
    finally:
        release.set()
        holder.join()


@pytest.mark.parametrize("table", ["evidence_record", "evidence_disclosure"])
def test_slow_read_is_cancelled(committed: World, settings: Settings, table: str) -> None:
    settings.PDPP_STATEMENT_TIMEOUT = 1
    with locked(table):
        late = committed.get(LIST, connection_id=PERSONAL)
    assert (late.status, late.error["code"], late.error["type"]) == (
        503,
        "query_timeout",
        "api_error",
    )
    assert int(late.headers["Retry-After"]) > 0
    assert committed.get(LIST, connection_id=PERSONAL).status == 200


def test_no_statement_starts_after_the_limit(committed: World, settings: Settings) -> None:
    settings.PDPP_STATEMENT_TIMEOUT = 1
    with locked("evidence_record"):
        late = committed.get("/v1/search", "bob", q="lease")
    assert (late.status, late.error["code"]) == (503, "query_timeout")


def test_limit_ends_with_its_transaction(committed: World) -> None:
    with time_limited_transaction(7):
        assert statement_timeout() == "7s"
    assert statement_timeout() == "0"
    with time_limited_transaction(0):
        assert statement_timeout() == "0"


def statement_timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchall()[0][0])
