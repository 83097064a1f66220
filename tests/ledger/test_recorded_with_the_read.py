"""An answer and its entry are one transaction, which waits for no right and no erasure."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from evidence.access.grants import pause_client, revoke_grant, revoke_package
from evidence.access.sql import SQL
from evidence.access.tokens import authenticate, revoke_token_id
from evidence.api import base_views
from evidence.erasure import erase_record
from evidence.ledger import entries
from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.entries import record_disclosure
from evidence.ledger.verification import verify
from evidence.models.grants import AccessToken
from evidence.models.ledger import DisclosedRecord, Disclosure
from evidence.models.owners import acting_for
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import READ_SURFACE
from mcp_adapter.tool import ToolError
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"


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


def call_tool(world: World) -> None:
    """Call a tool with Bob's token. Raises ToolError or ApiException."""
    scope = authenticate(world.tokens["bob@mcp"], resource="/mcp", now=timezone.now())
    READ_SURFACE.tools["query_records"](
        {"stream": "messages"}, rest=InProcessRest(), authority=scope, public_url="http://x"
    )


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (revoke_the_grant, 403, "grant_revoked"),
        (revoke_the_package, 403, "grant_revoked"),
        (pause, 403, "grant_paused"),
        (revoke_the_token, 401, "authentication_error"),
        (expire, 401, "authentication_error"),
    ],
)
def test_right_that_ends_after_reading_ends_with_the_next_request(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[World], None],
    status: int,
    code: str,
) -> None:
    interrupt(monkeypatch, lambda: end(world))
    assert world.get(LIST).status == 200
    answer = world.get(LIST)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert Disclosure.unscoped.count() == 1
    with pytest.raises((ToolError, base_views.ApiException)):
        call_tool(world)
    assert Disclosure.unscoped.count() == 1
    assert verify(world.owner_id).problems == []


def test_record_erased_after_reading_is_counted_but_not_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def erase() -> None:
        erase_record(PERSONAL, stream="messages", record_key="m1", owner_id=world.owner_id,
                     by="a test", now=NOW, tombstones=False)  # fmt: skip

    interrupt(monkeypatch, erase)
    before = [(row["connection_id"], row["id"]) for row in world.get(LIST).body["data"]]
    after = [(row["connection_id"], row["id"]) for row in world.get(LIST).body["data"]]
    assert after == [each for each in before if each != (PERSONAL, "m1")]
    entry = Disclosure.unscoped.order_by("at").first()
    assert entry is not None
    assert entry.record_count == len(entry.record_digests) == len(before)
    links = DisclosedRecord.unscoped.filter(digest__in=entry.record_digests)
    assert sorted(links.values_list("connection_id", "record_key")) == sorted(after)
    assert not DisclosedRecord.unscoped.filter(record_key="m1", connection_id=PERSONAL).exists()
    assert verify(world.owner_id).problems == []


def test_entry_is_on_disk_before_the_answer_leaves(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit waits for the disk even where the database would not."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    seen: list[str] = []
    run = entries.fetch_together

    def observed(*statements: SQL) -> Any:
        *rows, [(setting,)] = run(*statements, SQL("SELECT current_setting('synchronous_commit')"))
        seen.append(setting)
        return rows

    monkeypatch.setattr(entries, "fetch_together", observed)
    assert committed.get(LIST).status == 200
    assert seen == ["on"]


def test_an_answer_whose_commit_fails_is_withheld(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise base_views.GrantConsumed

    monkeypatch.setattr(
        base_views,
        "record_disclosure",
        lambda *args, **more: (record_disclosure(*args, **more), fail()),
    )
    assert committed.get(LIST).status == 403
    assert not Disclosure.unscoped.exists()


def test_no_answer_begins_after_a_revocation_has_committed(committed: World) -> None:
    """Four readers and a signer at work while the grant is revoked."""
    revoked_at: list[float] = []
    is_over = threading.Event()

    def read(_: int) -> list[tuple[float, int]]:
        """Read until the grant is revoked, and once more. Return when each read began."""
        answers = []
        try:
            is_last = False
            while not is_last:
                is_last = is_over.is_set()
                begun = monotonic()
                answers.append((begun, committed.get(LIST).status))
        finally:
            connection.close()
        return answers

    def sign() -> None:
        try:
            while not is_over.is_set():
                with acting_for(OWNER_ID):
                    sign_entries(OWNER_ID, now=timezone.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as pool:
        signing = pool.submit(sign)
        readers = [pool.submit(read, number) for number in range(4)]
        while Disclosure.unscoped.count() < 40:
            sleep(0.01)
        revoke_the_grant(committed)
        revoked_at.append(monotonic())
        is_over.set()
        answers = [answer for reader in readers for answer in reader.result(60)]
        signing.result(60)
    statuses = {status for begun, status in answers if begun > revoked_at[0]}
    assert statuses == {403}
    given = sum(status == 200 for _, status in answers)
    sign_entries(committed.owner_id, now=timezone.now())
    verdict = verify(committed.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (given, 1, [])
