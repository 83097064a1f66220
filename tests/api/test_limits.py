"""Limits of a grant: what would pass one is refused before anything of it is shown."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import StreamRequest
from evidence.access.quotas import (
    get_tripwire_share,
    list_quotas,
    schedule_recount,
    set_quotas,
    set_tripwire_share,
)
from evidence.models.events import Subscription
from evidence.models.ledger import Disclosure
from evidence.models.quotas import Quota, Watch
from tests.events.receiving import send_json
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured
from tests.world import (
    BANK,
    CHAT,
    PERSONAL,
    WORK,
    Answer,
    World,
    mail,
)

LIST = "/v1/streams/messages/records"
PAID = "/v1/streams/transactions/records"


def limit(world: World, who: str = "bob", *, number: int = 0, **most: int) -> str:
    """``limit(world, records_day=3)``; the id of the grant."""
    wanted = {(measure, period): each for name, each in most.items()
              for measure, period in [name.split("_")]}  # fmt: skip
    grant_id = world.grants[who][number].pk
    set_quotas(grant_id, wanted, now=timezone.now())
    return grant_id


def used(world: World, who: str = "bob", number: int = 0) -> dict[str, int]:
    rows = list_quotas(world.grants[who][number].pk, now=timezone.now())
    return {f"{each.measure}_{each.period}": each.used for each in rows}


def rows_of(world: World, who: str = "bob") -> int:
    return Disclosure.unscoped.filter(chain=world.grants[who][0].pk).count()


def test_a_call_too_many_is_refused_with_the_limit_and_its_reset_time(
    world: World,
) -> None:
    grant_id = limit(world, calls_day=2)
    assert [world.get(LIST).status for _ in range(3)] == [200, 200, 429]

    refused = world.get(LIST)

    error = refused.error
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    assert error["limit"] == {
        "grant_id": grant_id, "measure": "calls", "period": "day", "most": 2, "used": 2, "asked": 1,
    }  # fmt: skip
    resets_at = datetime.fromisoformat(error["resets_at"])
    assert (resets_at.hour, resets_at.minute, resets_at.second) == (0, 0, 0)
    left = (resets_at - datetime.now(UTC)).total_seconds()
    assert abs(int(refused.headers["Retry-After"]) - left) <= 2
    assert error["resets_at"] in error["message"]
    assert error["resets_at"] in error["next_step"]
    assert rows_of(world) == 2


def test_what_changes_something_is_a_call_and_is_not_done_beyond_the_limit(world: World) -> None:
    limit(world, calls_day=2)
    path = "/v1/event-subscriptions"

    made = [
        send_json(world, "POST", path, callback_url="https://receiver.example") for _ in range(3)
    ]

    assert [answer.status for answer in made] == [201, 201, 429]
    assert used(world) == {"calls_day": 2}
    assert Subscription.unscoped.count() == 2


@pytest.mark.parametrize("era", [real.MODERN, real.LEGACY])
def test_a_tool_says_in_both_channels_when_to_go_on(world: World, era: str) -> None:
    limit(world, calls_day=1)
    world.get(LIST)

    result = real.ask(
        world.tokens["bob@mcp"],
        lambda client: client.call_tool("query_records", {"stream": "messages"}),
        era=era,
    )

    error = error_of(result)
    assert error["code"] == "rate_limit_exceeded"
    for channel in (parsed_text(result), structured(result)):
        assert error["resets_at"] in channel["error"]["message"]
        assert error["resets_at"] in channel["error"]["next_step"]


def test_an_answer_that_would_pass_the_limit_shows_and_records_and_costs_nothing(
    world: World,
) -> None:
    limit(world, records_hour=4, calls_hour=9)
    assert len(world.get(LIST, limit=3).ids) == 3
    shown = world.get(LIST, limit=3)

    assert shown.status == 429
    assert "Lease" not in json.dumps(shown.body)
    assert (shown.error["limit"]["used"], shown.error["limit"]["asked"]) == (3, 3)
    assert "at most 1 records" in shown.error["next_step"]
    assert used(world) == {"records_hour": 3, "calls_hour": 1}
    assert rows_of(world) == 1
    assert len(world.get(LIST, limit=1).ids) == 1, "what is left can be read"


def test_bytes_are_those_of_the_ledger(world: World) -> None:
    limit(world, bytes_day=10**9)
    world.get(LIST)
    world.get(f"{LIST}/m1/field-window", field="body_text", connection_id=PERSONAL)

    written = Disclosure.unscoped.values_list("size_bytes", flat=True)

    assert used(world) == {"bytes_day": sum(written)}
    limit(world, bytes_day=sum(written) + 10)
    refused = world.get(LIST)
    assert (refused.status, refused.error["limit"]["measure"]) == (429, "bytes")
    assert refused.error["next_step"] == (
        "Ask for at most 10 bytes at once (max_bytes, fewer fields), or call again after"
        f" {refused.error['resets_at']}."
    )


def test_what_shows_nothing_counts_as_a_call_and_so_does_a_guess(world: World) -> None:
    limit(world, calls_day=4, records_day=1)
    assert world.get("/v1/schema").status == 200
    assert world.get(f"{LIST}/m0", connection_id=PERSONAL).status == 404
    assert world.get("/v1/streams/threads/records").status == 403
    assert world.get(LIST, no_such="parameter").status == 400
    assert used(world) == {"calls_day": 3, "records_day": 0}, "a faulty request is not let in"
    assert [world.get(f"{LIST}/{key}").status for key in ("x", "m0")] == [404, 429]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (f"{PAID}/nothing", {}),
        (PAID, {"filter__amount__gte": 10**9}),
        (PAID, {"connection_id": BANK, "filter__amount__gte": 10**9}),
        ("/v1/search", {"q": "zqvx", "connection_id": BANK}),
        ("/v1/search", {"q": "zqvx"}),
        ("/v1/schema", {"connection_id": BANK}),
    ],
)
def test_what_shows_nothing_counts_for_the_grant_that_it_was_asked_of(
    world: World, path: str, query: dict[str, Any]
) -> None:
    limit(world, "dora", number=2, calls_day=2)
    answers = [world.get(path, "dora", **query).status for _ in range(3)]
    assert answers[-1] == 429
    assert used(world, "dora", 2) == {"calls_day": 2}
    going_on = world.get("/v1/schema", "dora", connection_id=CHAT)
    assert going_on.status == 200, "as the refusal says"


def test_a_new_limit_counts_from_the_start_of_its_period(world: World) -> None:
    wanted = {("calls", period): 1 for period in ("minute", "hour", "day")}
    now = datetime(2026, 11, 1, 12, 34, 56, 789, tzinfo=UTC)
    set_quotas(world.grants["bob"][0].pk, wanted, now=now)
    since = {row.period: f"{row.since:%d %H:%M:%S.%f}" for row in Quota.unscoped.all()}
    assert since == {
        "minute": "01 12:34:00.000000",
        "hour": "01 12:00:00.000000",
        "day": "01 00:00:00.000000",
    }


def test_hidden_records_move_no_count(world: World) -> None:
    limit(world, records_day=100, calls_day=100, bytes_day=10**9)
    before = world.get(LIST)
    spent = used(world)
    world.put((PERSONAL, "messages", mail("m9", "2025-02-02T02:00:00Z", subject="Hidden")))

    after = world.get(LIST)

    assert after.ids == before.ids
    assert used(world) == {name: 2 * amount for name, amount in spent.items()}


def test_the_next_period_begins_at_nothing(world: World) -> None:
    limit(world, calls_day=1, records_hour=5)
    assert [world.get(LIST).status for _ in range(2)] == [200, 429]
    for row in Quota.unscoped.all():
        Quota.unscoped.filter(pk=row.pk).update(since=row.since - timedelta(days=1))
    assert used(world) == {"calls_day": 0, "records_hour": 0}

    assert world.get(LIST).status == 200
    assert used(world) == {"calls_day": 1, "records_hour": 5}


def test_of_two_exceeded_limits_the_one_that_lasts_longer_is_named(world: World) -> None:
    grant_id = limit(world, records_hour=1, records_day=1)
    error = world.get(LIST).error
    assert error["limit"]["period"] == "day"
    assert error["message"] == (
        f"The owner allows 1 records per day through the grant {grant_id}. 0 are used and this"
        " call needs 5, so it was not answered. The quota resets at"
        f" {error['resets_at']}."
    )


def test_a_limit_that_is_not_named_again_is_none(world: World) -> None:
    limit(world, calls_day=1, records_day=100)
    limit(world, records_day=100)
    assert [world.get(LIST, limit=1).status for _ in range(2)] == [200, 200]
    assert used(world) == {"records_day": 2}


def test_what_was_read_is_counted_again_when_the_share_changes(world: World) -> None:
    watch = Watch.unscoped.filter(stream="messages")
    grant_id = world.grants["bob"][0].pk
    watch.create(grant_id=grant_id, stream="messages", slack=5)
    set_tripwire_share(grant_id, None)
    assert watch.get().slack == 5, "as it was"
    set_tripwire_share(grant_id, 10)
    assert (watch.get().slack, get_tripwire_share(grant_id)) == (0, 10)
    schedule_recount(grant_id, "messages", slack=7)
    assert watch.get().slack == 7
    set_tripwire_share(grant_id, None)
    assert (watch.get().slack, get_tripwire_share(grant_id)) == (0, None)


def test_each_grant_of_a_package_is_charged_with_what_was_read_through_it(world: World) -> None:
    for number in range(3):
        limit(world, "dora", number=number, records_day=100, calls_day=100)
    world.get("/v1/search", "dora", q="lease OR budget OR canal", limit=50)
    world.get("/v1/streams/transactions/records", "dora")

    charged = [used(world, "dora", number) for number in range(3)]

    assert charged[2] == {"records_day": 3, "calls_day": 1}
    assert charged[1]["records_day"] == 2
    assert charged[0]["records_day"] >= 2


def test_one_grant_over_refuses_the_call_and_names_the_way_on_without_it(world: World) -> None:
    grant_id = limit(world, "dora", number=1, records_day=1)
    limit(world, "dora", number=0, records_day=100)

    refused = world.get("/v1/search", "dora", q="lease OR budget OR canal", limit=50)

    error = refused.error
    assert (refused.status, error["limit"]["grant_id"]) == (429, grant_id)
    others = [each["connection_id"] for each in error["other_connections"]]
    assert sorted(others) == sorted([PERSONAL, WORK, BANK])
    assert "connection_id" in error["next_step"]
    assert used(world, "dora", 0) == {"records_day": 0}, "nobody is charged for what was refused"
    for connection_id in others[:2]:
        going_on = world.get("/v1/search", "dora", q="lease OR budget", connection_id=connection_id)
        assert going_on.status == 200


def test_a_grant_without_limits_costs_no_statement_and_one_with_them_a_single_one(
    world: World, django_assert_num_queries: Any
) -> None:
    world.get(LIST)
    with django_assert_num_queries(8):  # token, records, four of the ledger, two of a savepoint
        assert world.get(LIST).status == 200
    limit(world, calls_day=1_000, records_day=1_000, bytes_day=10**9, calls_minute=1_000)
    with django_assert_num_queries(9):  # and one that charges the quotas
        assert world.get(LIST).status == 200


def test_a_limit_used_up_reads_nothing_any_more(
    world: World, django_assert_num_queries: Any
) -> None:
    limit(world, calls_day=1)
    world.get(LIST)
    with django_assert_num_queries(4):  # the token, a savepoint, and a line for the owner
        assert world.get(LIST).status == 429


def test_a_replacing_grant_has_what_is_left(world: World) -> None:
    grant_id = limit(world, calls_day=2)
    world.get(LIST)
    fewer = StreamRequest(
        name="messages", fields=("id", "subject"), since=datetime(2026, 2, 1, tzinfo=UTC)
    )
    narrow_grant(
        grant_id, [fewer], connection_ids=[PERSONAL, WORK], expires_at=None, now=timezone.now()
    )

    assert [world.get(LIST).status for _ in range(2)] == [200, 429]


def test_the_owner_is_never_limited(world: World) -> None:
    limit(world, calls_day=1)
    assert [world.get(LIST, "alice", connection_id=PERSONAL).status for _ in range(3)] == [200] * 3


def test_many_at_once_never_pass_a_limit(committed: World) -> None:
    """Real connections: a count kept beside the rows, or read before it is written, would let some
    more through."""
    limit(committed, records_day=10, calls_day=1_000)

    def ask(number: int) -> Answer:
        try:
            path = f"{LIST}/m1" if number % 3 else f"{LIST}/nothing"
            return committed.get(path, connection_id=PERSONAL)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = [each.status for each in pool.map(ask, range(30))]

    assert (answers.count(200), answers.count(429), answers.count(404)) == (10, 10, 10)
    assert used(committed) == {"records_day": 10, "calls_day": 20}
    assert rows_of(committed) == 10
