"""An answer is recorded with one statement, which checks again what was read before it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from evidence.access.grants import pause_client, revoke_grant, revoke_package
from evidence.access.sql import SQL
from evidence.access.tokens import authenticate, revoke_token_id
from evidence.api import base_views
from evidence.erasure import erase_record
from evidence.ledger import writer
from evidence.ledger.verification import verify
from evidence.ledger.writer import record_disclosure
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken
from evidence.models.ledger import Disclosure
from mcp_adapter.errors import ToolError
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.surfaces import READ_SURFACE
from tests.world import NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
ONE = f"{LIST}/m2?connection_id={PERSONAL}"


def interrupt(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object]) -> None:
    """Run code once between the next read and its ledger entry."""
    left = [before]

    def interrupted(*args: Any, **kwargs: Any) -> None:
        while left:
            left.pop()()
        record_disclosure(*args, **kwargs)

    monkeypatch.setattr(base_views, "record_disclosure", interrupted)


def revoke_the_grant(world: World) -> None:
    assert revoke_grant(world.grants["bob"][0].pk, now=NOW)


def revoke_the_package(world: World) -> None:
    assert revoke_package(world.packages["bob"].pk, now=NOW)


def pause(world: World) -> None:
    assert pause_client(world.packages["bob"].client_id, now=NOW)


def revoke_the_token(world: World) -> None:
    tokens = AccessToken.unscoped.filter(package=world.packages["bob"])
    assert [revoke_token_id(token.pk, now=NOW) for token in tokens]


def expire(world: World) -> None:
    AccessToken.unscoped.filter(package=world.packages["bob"]).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )


def nothing(world: World) -> None:
    pass


def call_tool(world: World) -> str | None:
    """Call a tool with Bob's token, and return the code of its error."""
    scope = authenticate(world.tokens["bob@mcp"], resource="/mcp", now=timezone.now())
    try:
        READ_SURFACE.tools["query_records"](
            {"stream": "messages"}, rest=InProcessRest(), authority=scope, public_url="http://x"
        )
    except ToolError as error:
        return str(error.body["error"]["code"])
    return None


ENDS = [
    (nothing, 200, None),
    (revoke_the_grant, 403, "grant_revoked"),
    (revoke_the_package, 403, "grant_revoked"),
    (pause, 403, "grant_paused"),
    (revoke_the_token, 401, "authentication_error"),
    (expire, 401, "authentication_error"),
]


@pytest.fixture(params=[False, True], ids=["first", "repeated"])
def asked(request: pytest.FixtureRequest, world: World) -> World:
    """A world in which Bob has read the list before, or not."""
    if request.param:
        world.get(LIST)
        call_tool(world)
    return world


@pytest.mark.parametrize(("end", "status", "code"), ENDS)
def test_right_that_ends_after_reading_withholds_the_answer(
    asked: World,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[World], None],
    status: int,
    code: str | None,
) -> None:
    rows = Disclosure.unscoped.count()
    interrupt(monkeypatch, lambda: end(asked))
    answer = asked.get(LIST)
    assert (answer.status, answer.error.get("code") if code else None) == (status, code)
    assert Disclosure.unscoped.count() == rows + (code is None)
    assert verify(asked.owner_id).problems == []


@pytest.mark.parametrize(("end", "status", "code"), ENDS)
def test_right_that_ends_after_reading_withholds_the_result_of_a_tool(
    asked: World,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[World], None],
    status: int,
    code: str | None,
) -> None:
    rows = Disclosure.unscoped.count()
    interrupt(monkeypatch, lambda: end(asked))
    assert call_tool(asked) == code
    assert Disclosure.unscoped.count() == rows + (code is None)


def test_connection_revoked_after_reading_is_not_shown(
    asked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Connection.unscoped.filter(pk=WORK)
    interrupt(monkeypatch, lambda: rows.update(status="revoked"))
    shown = {row["connection_id"] for row in asked.get(LIST).body["data"]}
    assert shown == {PERSONAL}


def test_record_erased_after_reading_is_not_shown(
    asked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase() -> None:
        erase_record(PERSONAL, stream="messages", record_key="m1", owner_id=asked.owner_id,
                     by="a test", now=NOW, tombstones=False)  # fmt: skip

    before = [(row["connection_id"], row["id"]) for row in asked.get(LIST).body["data"]]
    interrupt(monkeypatch, erase)
    after = [(row["connection_id"], row["id"]) for row in asked.get(LIST).body["data"]]
    assert (PERSONAL, "m1") in before
    assert after == [each for each in before if each != (PERSONAL, "m1")]
    assert verify(asked.owner_id).problems == []


def test_end_of_a_chain_that_another_process_moved_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.get(ONE)
    stale = dict(writer._heads)
    world.get(ONE)
    monkeypatch.setattr(writer, "_heads", stale)
    assert world.get(ONE).status == 200
    verdict = verify(world.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (3, 1, [])
    with django_assert_num_queries(4):  # token, record, ends of chains, ledger
        world.get(ONE)


def test_chain_put_back_from_a_backup_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another chain may have grown to the same number: the digest decides."""
    world.get(LIST)
    ahead = {chain: head._replace(digest=bytes(32)) for chain, head in writer._heads.items()}
    monkeypatch.setattr(writer, "_heads", ahead)
    assert world.get(LIST).status == 200
    verdict = verify(world.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (2, 1, [])


@contextmanager
def _not_exclusive(_chains: object) -> Iterator[bool]:
    yield True


def test_writers_of_several_processes_make_one_chain(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without turns within the process, threads meet in the database as processes do."""
    monkeypatch.setattr(writer, "_exclusive", _not_exclusive)

    def ask(_: int) -> int:
        try:
            return committed.get(LIST).status
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(24))) == {200}
    verdict = verify(committed.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (24, 1, [])


def test_entry_is_on_disk_before_the_answer_leaves(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit waits for the disk even where the database would not."""
    committed.get(LIST)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    seen: list[str] = []
    run = writer.fetch_together

    def observed(move: SQL, add: SQL) -> Any:
        text = move.text.replace(
            "SELECT is_unchanged, NULL AS",
            "SELECT is_unchanged, current_setting('synchronous_commit') AS",
        )
        ((is_unchanged, setting, _), *used_up), added = run(SQL(text, move.values), add)
        seen.append(setting)
        return [[(is_unchanged, None, None), *used_up], added]

    monkeypatch.setattr(writer, "fetch_together", observed)
    assert committed.get(LIST).status == 200
    assert seen == ["on"]
