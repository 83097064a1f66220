"""A grant that is narrowed while something else is done to it, or from a page that is out of date."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import pause_client, resume_client, revoke_grant
from evidence.access.quotas import set_limits, set_share
from evidence.models.grants import Grant
from evidence.models.quotas import Alert
from tests.api.test_limits import limit
from tests.operations.test_erasing_while_read import interrupt, nothing
from tests.world import NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
BLOCKED = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"


def narrow_bobs(world: World) -> None:
    fewer = StreamRequest(
        name="messages", fields=("id", "subject"), since=datetime(2026, 1, 1, tzinfo=UTC)
    )
    [old] = world.grants["bob"]
    narrow(old.pk, [fewer], connection_ids=[PERSONAL, WORK], expires_at=None, now=timezone.now())


def pause(world: World) -> None:
    pause_client(world.packages["bob"].client_id, now=NOW)


def resume(world: World) -> None:
    resume_client(world.packages["bob"].client_id)


def revoke(world: World) -> None:
    assert revoke_grant(world.grants["bob"][0].pk, now=NOW)


def limit_to_one(world: World) -> None:
    set_limits(world.grants["bob"][0].pk, {("calls", "day"): 1}, now=timezone.now())


def overtake(first: Callable[[], object], second: Callable[[], object]) -> None:
    """``second`` begins when all of ``first`` is done but not committed, and comes as far as it can."""

    def alone() -> None:
        try:
            second()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first()
            waiting: Future[None] = pool.submit(alone)
            with connection.cursor() as cursor:
                while not waiting.done():
                    cursor.execute(BLOCKED)
                    if cursor.fetchone() == (True,):
                        break
        waiting.result()


@pytest.mark.parametrize(
    ("deed", "code"),
    [
        (pause, "grant_paused"),
        (revoke, "grant_revoked"),
        (limit_to_one, "rate_limit_exceeded"),
    ],
)
def test_what_the_owner_does_while_it_is_narrowed_holds_for_what_it_becomes(
    committed: World, deed: Callable[[World], None], code: str
) -> None:
    overtake(lambda: narrow_bobs(committed), lambda: deed(committed))
    committed.get(LIST)
    assert committed.get(LIST).error["code"] == code


def test_it_goes_on_where_it_was_resumed_while_it_was_narrowed(committed: World) -> None:
    pause(committed)
    overtake(lambda: narrow_bobs(committed), lambda: resume(committed))
    assert committed.get(LIST).status == 200


def test_it_stays_paused_where_it_was_paused_before_it_was_narrowed(committed: World) -> None:
    overtake(lambda: pause(committed), lambda: narrow_bobs(committed))
    assert Grant.unscoped.get(pk=committed.grants["bob"][0].pk).superseded_by is not None
    assert committed.get(LIST).error["code"] == "grant_paused"


def test_an_answer_on_its_way_while_it_is_narrowed_is_not_given_beyond_the_limit(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(committed, calls_day=1)
    interrupt(monkeypatch, before=lambda: narrow_bobs(committed), after=nothing)
    assert [committed.get(LIST).status for _ in range(3)] == [429, 200, 429]


def test_narrowing_waits_for_what_is_being_charged(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatiently() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            narrow_bobs(committed)

    limit(committed, calls_day=1)
    interrupt(monkeypatch, before=nothing, after=impatiently)
    assert committed.get(LIST).status == 200
    narrow_bobs(committed)
    assert committed.get(LIST).status == 429


def test_the_owner_is_told_of_no_pause_that_does_not_hold(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_share(committed.grants["bob"][0].pk, 1)
    interrupt(monkeypatch, before=lambda: narrow_bobs(committed), after=nothing)
    monkeypatch.setattr("django.conf.settings.PDPP_TRIPWIRE_RECORDS", 1)
    assert committed.get(LIST).status == 200
    assert not Alert.unscoped.exists()
