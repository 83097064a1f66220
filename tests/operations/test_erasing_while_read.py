"""Erasing a record during a read: nothing of the record is left, also where the answer was still given."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from evidence.api import base_views
from evidence.erasure import erase_record, run_erasure
from evidence.ledger.entries import record_disclosure
from evidence.ledger.verification import verify
from evidence.models.owners import act_for
from evidence.write.erasure_orders import ErasureScope, create_erasure
from tests.operations.test_erasing import places_of
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, World, mail

KEY = "zqvxmark-key"
ONE = f"/v1/streams/messages/records/{KEY}"


@pytest.fixture
def marked(committed: World) -> World:
    world = committed
    world.put((PERSONAL, "messages", mail(KEY, "2026-02-02T08:00:00Z", subject="A lease")))
    return world


def erase(world: World) -> None:
    erase_record(PERSONAL, stream="messages", record_key=KEY, owner_id=world.owner_id, by="a test",
                 now=NOW, tombstones=False)  # fmt: skip


def erase_connection(world: World) -> None:
    made = create_erasure(
        ErasureScope.CONNECTION,
        owner_id=world.owner_id,
        by="a test",
        now=NOW,
        connection_id=PERSONAL,
    )
    list(run_erasure(made, now=NOW))


WAYS = (erase, erase_connection)


def over_another_connection(work: Callable[[], object]) -> None:
    def alone() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1, initializer=act_for, initargs=(OWNER_ID,)) as pool:
        pool.submit(alone).result()


def interrupt(
    monkeypatch: pytest.MonkeyPatch, *, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Run code once around the next write to the ledger: before it, and before its commit."""
    left = [True]

    def interrupted(*args: Any, **kwargs: Any) -> None:
        first, left[:] = bool(left), []
        if first:
            over_another_connection(before)
        with transaction.atomic():
            record_disclosure(*args, **kwargs)
            if first:
                over_another_connection(after)

    monkeypatch.setattr(base_views, "record_disclosure", interrupted)


def nothing() -> None:
    pass


@pytest.mark.parametrize("way", WAYS)
def test_record_erased_after_reading_leaves_no_trace(
    marked: World, monkeypatch: pytest.MonkeyPatch, way: Callable[[World], None]
) -> None:
    interrupt(monkeypatch, before=lambda: way(marked), after=nothing)
    assert marked.get(ONE, "dora", connection_id=PERSONAL).status == 200
    assert places_of(KEY) == []
    assert marked.get(ONE, "dora", connection_id=PERSONAL).status == 404
    assert verify(marked.owner_id).problems == []


@pytest.mark.one_server("A cluster hands no lock_timeout on to its nodes.")
@pytest.mark.parametrize("way", WAYS)
def test_erasure_waits_for_ledger_entries(
    marked: World, monkeypatch: pytest.MonkeyPatch, way: Callable[[World], None]
) -> None:
    def impatiently() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            way(marked)

    interrupt(monkeypatch, before=nothing, after=impatiently)
    assert marked.get(ONE, "dora", connection_id=PERSONAL).status == 200
    assert [place for place in places_of(KEY) if "disclosedrecord" in place]
    way(marked)
    assert places_of(KEY) == []
    assert verify(marked.owner_id).problems == []
