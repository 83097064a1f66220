"""A grant through which too much of a stream is read pauses by itself, and its owner is told."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grants import StreamRequest, resume_client
from evidence.access.owner_notices import mark_alert_seen, open_alerts
from evidence.access.quotas import set_tripwire_share
from evidence.ledger.verification import verify
from evidence.models.grants import Grant
from evidence.models.ledger import Disclosure
from evidence.models.quotas import Alert
from tests.ledger.test_whole_or_not import tamper
from tests.operations.notification_receivers import add_channel, announce
from tests.world import PERSONAL, World, mail

LIST = "/v1/streams/messages/records"
TOTAL = 40
"""What Bob may read: of all messages those since 2026."""


@pytest.fixture
def watched(world: World, settings: Any) -> World:
    return filled(world, settings)


def filled(world: World, settings: Any) -> World:
    settings.PDPP_TRIPWIRE_RECORDS = 20
    world.put(
        *(
            (PERSONAL, "messages", mail(f"n{number}", f"2026-04-01T00:{number:02}:00Z"))
            for number in range(TOTAL - 5)
        ),
        *(
            (PERSONAL, "messages", mail(f"o{number}", "2024-04-01T00:00:00Z"))
            for number in range(60)
        ),
    )
    assert world.get(LIST, "alice", connection_id=PERSONAL, count="exact").status == 200
    return world


def read(world: World, *pages: int) -> list[int]:
    """The statuses of the first pages of these sizes, one after the other."""
    cursor: dict[str, str] = {}
    statuses = []
    for size in pages:
        answer = world.get(LIST, limit=size, **cursor)
        statuses.append(answer.status)
        cursor = {"cursor": answer.body["next_cursor"]} if answer.body.get("has_more") else {}
    return statuses


def is_paused(world: World, who: str = "bob") -> bool:
    return Grant.unscoped.get(pk=world.grants[who][0].pk).paused_at is not None


def test_half_of_what_it_may_read_pauses_it_and_hidden_records_do_not_count(
    watched: World,
) -> None:
    assert read(watched, 10, 9) == [200, 200]
    assert not is_paused(watched)

    assert read(watched, 20) == [200], "the answer that reaches the share is the last"

    refused = watched.get(LIST)
    assert (refused.status, refused.error["code"]) == (403, "grant_paused")
    (told,) = open_alerts(watched.owner_id)
    assert told.sentence == (
        "Access of Bob to Mail was paused automatically: within 24 hours it read 20 of the 40"
        " records of Messages that it may see."
    )


def test_the_same_records_again_are_not_more(watched: World) -> None:
    assert [watched.get(LIST, limit=10).status for _ in range(12)] == [200] * 12
    assert not is_paused(watched)
    assert [watched.get(f"{LIST}/n3", connection_id=PERSONAL).status for _ in range(40)] == [
        200
    ] * 40
    assert not is_paused(watched)


def test_what_was_read_long_ago_does_not_count(watched: World) -> None:
    read(watched, 10)
    tamper(
        "UPDATE evidence_disclosure"
        " SET at = (at AT TIME ZONE 'UTC' - interval '25 hours') AT TIME ZONE 'UTC'"
    )

    assert len(watched.get(LIST, limit=19, order="asc").ids) == 19

    assert not is_paused(watched)


def test_a_small_stream_is_not_watched(watched: World, settings: Any) -> None:
    settings.PDPP_TRIPWIRE_RECORDS = TOTAL + 1
    assert [watched.get(LIST, limit=100).status for _ in range(5)] == [200] * 5


def test_the_share_of_a_grant_is_its_owners(watched: World) -> None:
    grant_id = watched.grants["bob"][0].pk
    read(watched, 6)
    set_tripwire_share(grant_id, 10)
    assert read(watched, 1, 1) == [200, 403], "what was read before counts"
    resume_client(watched.packages["bob"].client_id)
    set_tripwire_share(grant_id, 0)

    assert read(watched, 40, 40) == [200, 200]


def test_nobody_is_watched_where_the_operator_says_so(watched: World, settings: Any) -> None:
    settings.PDPP_TRIPWIRE_SHARE = 0
    assert [watched.get(LIST, limit=100).status for _ in range(3)] == [200] * 3


def test_once_resumed_as_much_again_is_read_before_it_pauses_again(watched: World) -> None:
    read(watched, 30)
    assert is_paused(watched)
    resume_client(watched.packages["bob"].client_id)

    assert read(watched, 15) == [200]
    assert not is_paused(watched)
    assert read(watched, 10, 1) == [200, 403]
    assert Alert.unscoped.count() == 2


def test_a_narrowed_grant_keeps_the_share_of_its_owner(watched: World) -> None:
    grant_id = watched.grants["bob"][0].pk
    set_tripwire_share(grant_id, 5)
    wanted = StreamRequest(
        name="messages", fields=("id", "subject"), since=datetime(2026, 1, 1, tzinfo=UTC)
    )
    narrow_grant(grant_id, [wanted], connection_ids=[PERSONAL], expires_at=None, now=timezone.now())

    assert read(watched, 3, 3) == [200, 403]


def test_one_grant_of_a_package_pauses_alone(watched: World) -> None:
    assert watched.get(LIST, "dora", connection_id=PERSONAL, limit=100).status == 200
    assert is_paused(watched, "dora")

    assert watched.get("/v1/streams/transactions/records", "dora").status == 200


def test_the_owner_is_notified_once(watched: World) -> None:
    add_channel()
    read(watched, 30)

    (text,) = announce(2)

    assert text.startswith("“Bob” was paused automatically: it read ")
    assert "records of Mail within 24 hours" in text
    assert "Lease" not in text


def test_an_alert_of_another_owner_is_not_acknowledged(watched: World) -> None:
    read(watched, 30)
    (told,) = open_alerts(watched.owner_id)
    assert not mark_alert_seen(told.alert_id, owner_id="mallory", now=timezone.now())
    assert len(open_alerts(watched.owner_id)) == 1


def test_two_concurrent_reads_are_counted_together_and_reported_once(
    committed: World, settings: Any
) -> None:
    """Two connections that each read less than the share."""
    world = filled(committed, settings)
    keys = [f"n{number}" for number in range(TOTAL - 5)]

    def ask(key: str) -> int:
        try:
            return world.get(f"{LIST}/{key}", connection_id=PERSONAL).status
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, keys))

    given = answers.count(200)
    assert set(answers) == {200, 403}
    assert TOTAL // 2 <= given <= TOTAL // 2 + 2, "and at most what was on its way"
    assert Disclosure.unscoped.filter(chain=world.grants["bob"][0].pk).count() == given
    assert Alert.unscoped.count() == 1
    assert verify(world.owner_id).problems == []
