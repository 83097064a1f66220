"""Narrowing a grant at the same time as other changes and answers."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import pause_client, resume_client, revoke_grant
from evidence.access.quotas import set_quotas, set_tripwire_share
from evidence.models.grants import Grant
from evidence.models.ledger import Disclosure
from evidence.models.owners import act_for
from evidence.models.quotas import Alert
from tests.api.test_limits import limit
from tests.distributed import cluster
from tests.operations.test_erasing_while_read import interrupt, nothing
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
BLOCKED = (
    "SELECT EXISTS (SELECT FROM pg_locks"
    " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
    if cluster.programs() is None
    else "SELECT EXISTS (SELECT FROM citus_lock_waits)"
)


def narrow_bobs(world: World) -> None:
    narrower = StreamRequest(
        name="messages", fields=("id", "subject"), since=datetime(2026, 1, 1, tzinfo=UTC)
    )
    [old] = world.grants["bob"]
    narrow_grant(
        old.pk, [narrower], connection_ids=[PERSONAL, WORK], expires_at=None, now=timezone.now()
    )


def pause(world: World) -> None:
    pause_client(world.packages["bob"].client_id, now=NOW)


def resume(world: World) -> None:
    resume_client(world.packages["bob"].client_id)


def revoke(world: World) -> None:
    assert revoke_grant(world.grants["bob"][0].pk, now=NOW)


def limit_to_one(world: World) -> None:
    set_quotas(world.grants["bob"][0].pk, {("calls", "day"): 1}, now=timezone.now())


def overtake(first: Callable[[], object], second: Callable[[], object]) -> None:
    """Run ``second`` in parallel until it blocks on the uncommitted changes of ``first``."""

    def run_second() -> None:
        try:
            second()
        finally:
            connection.close()

    with ThreadPoolExecutor(1, initializer=act_for, initargs=(OWNER_ID,)) as pool:
        with transaction.atomic():
            first()
            waiting: Future[None] = pool.submit(run_second)
            with connection.cursor() as cursor:
                while not waiting.done():
                    cursor.execute(BLOCKED)
                    if cursor.fetchone() == (True,):
                        break
        waiting.result()


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (pause, "grant_paused"),
        (revoke, "grant_revoked"),
        (limit_to_one, "rate_limit_exceeded"),
    ],
)
def test_owner_actions_during_narrowing_apply_to_the_new_grant(
    committed: World, action: Callable[[World], None], code: str
) -> None:
    overtake(lambda: narrow_bobs(committed), lambda: action(committed))
    committed.get(LIST)
    assert committed.get(LIST).error["code"] == code


def test_resuming_during_narrowing_applies_to_the_new_grant(committed: World) -> None:
    pause(committed)
    overtake(lambda: narrow_bobs(committed), lambda: resume(committed))
    assert committed.get(LIST).status == 200


def test_paused_grant_stays_paused_after_narrowing(committed: World) -> None:
    overtake(lambda: pause(committed), lambda: narrow_bobs(committed))
    assert Grant.unscoped.get(pk=committed.grants["bob"][0].pk).superseded_by is not None
    assert committed.get(LIST).error["code"] == "grant_paused"


def test_concurrent_answer_stays_within_the_quota_after_narrowing(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(committed, calls_day=1)
    interrupt(monkeypatch, before=lambda: narrow_bobs(committed), after=nothing)
    assert [committed.get(LIST).status for _ in range(3)] == [429, 200, 429]


def test_narrowing_waits_for_an_answer_being_charged(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow_with_timeout() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL citus.propagate_set_commands = 'local'")  # to all nodes
            cursor.execute("SET LOCAL lock_timeout = '1ms'")
            with pytest.raises(OperationalError, match="lock timeout"):
                narrow_bobs(committed)

    limit(committed, calls_day=1)
    interrupt(monkeypatch, before=nothing, after=narrow_with_timeout)
    assert committed.get(LIST).status == 200
    narrow_bobs(committed)
    assert committed.get(LIST).status == 429


def test_answer_that_narrowing_overtakes_counts_for_the_old_grant(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = committed.grants["bob"][0].pk
    set_tripwire_share(old, 1)
    interrupt(monkeypatch, before=lambda: narrow_bobs(committed), after=nothing)
    monkeypatch.setattr("django.conf.settings.PDPP_TRIPWIRE_RECORDS", 1)
    assert committed.get(LIST).status == 200
    assert not Alert.unscoped.filter(grant_id=old).exists()
    answer = committed.get(LIST)
    assert (answer.status, set(answer.body["data"][0]["data"])) == (200, {"id", "subject"})
    old_entry, new_entry = Disclosure.unscoped.order_by("at")
    assert (old_entry.chain, new_entry.chain != old) == (old, True)
