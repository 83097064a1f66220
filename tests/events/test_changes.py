"""What subscribers are told of changes: only what their grant shows, and where to read it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import pause_client, resume_client, revoke_grant, revoke_package
from evidence.access.quotas import set_limits
from evidence.events.tasks import attempt
from evidence.events.webhook_client import Answered
from evidence.models.connections import Connection
from evidence.models.events import Event, Subscription
from evidence.models.grants import Grant
from evidence.models.ledger import Disclosure
from evidence.storing.retention import prune_changes
from tests.events.receiving import SUBSCRIPTIONS, Receiver, ask, look, subscribed, work
from tests.world import CHAT, PERSONAL, WORK, World, mail

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
Change = Callable[[World], object]


def new(key: str = "m9", *, at: str = "2026-05-01T00:00:00Z", **more: Any) -> tuple[Any, ...]:
    return (PERSONAL, "messages", mail(key, at, **more))


def test_a_change_is_told_with_a_bookmark_to_read_it_from(world: World, receiver: Receiver) -> None:
    path, secret = subscribed(world, receiver)

    world.put(new(subject="The new lease", body_text="Top secret contents"))
    work()

    [told] = receiver.changes
    assert told == {
        "subscription_id": path.rpartition("/")[2],
        "stream": "messages",
        "connection_id": PERSONAL,
        "change_count_hint": 1,
        "changes_since": told["changes_since"],
    }
    [message] = receiver.of("pdpp.records.changed")
    assert message.verified(secret)["data"] == told
    for word in (b"lease", b"secret", b"body_text"):
        assert word not in message.content
    read = world.get(
        "/v1/streams/messages/records",
        connection_id=told["connection_id"],
        changes_since=told["changes_since"],
    )
    assert read.ids == ["m9"]


def test_the_bookmark_is_of_no_use_to_others(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)
    world.put(new())
    work()
    [told] = receiver.changes

    read = world.get(
        "/v1/streams/messages/records",
        "dora",
        connection_id=told["connection_id"],
        changes_since=told["changes_since"],
    )

    assert read.error["code"] == "invalid_cursor"


HIDDEN: dict[str, Change] = {
    "a field outside the grant": lambda world: world.put(
        (PERSONAL, "messages", dict(m2(), size_bytes=501))
    ),
    "a record before the granted time": lambda world: world.put(
        new("old", at="2025-01-01T00:00:00Z")
    ),
    "a record without a time": lambda world: world.put(
        (PERSONAL, "messages", mail("undated", None))
    ),
    "another stream": lambda world: world.put(
        (PERSONAL, "threads", {"id": "t2", "topic": "Other"})
    ),
    "another source": lambda world: world.put((CHAT, "messages", {"id": "c9", "text": "Hello"})),
    "nothing new": lambda world: world.put((PERSONAL, "messages", m2())),
}


def m2() -> dict[str, Any]:
    return mail(
        "m2", "2026-01-12T10:00:00Z", subject="Re: Lease signed", from_name="Alice",
        thread_id="t1", is_seen=False, size_bytes=500,
        body_text="Wonderful, I will transfer the deposit tomorrow.",
    )  # fmt: skip


@pytest.mark.parametrize("what", HIDDEN)
def test_what_the_grant_hides_wakes_nobody(world: World, receiver: Receiver, what: str) -> None:
    subscribed(world, receiver)

    HIDDEN[what](world)

    assert look() == []
    assert not Event.unscoped.filter(type=Event.Type.CHANGED).exists()
    # It is looked at once; after that a visible change is told as ever.
    world.put(new())
    work()
    assert [told["change_count_hint"] for told in receiver.changes] == [1]


def test_hidden_changes_do_not_show_in_what_is_told(world: World, receiver: Receiver) -> None:
    """The same visible change, with and without hidden ones: the same message but for what is
    random or sealed."""
    subscribed(world, receiver)
    world.put(new("m9"))
    work()
    for change in HIDDEN.values():
        change(world)
    world.put(new("m10"))
    work()

    plain, beside = (
        dict(told, changes_since=len(told["changes_since"])) for told in receiver.changes
    )
    assert plain == beside


def test_what_was_taken_back_before_it_was_told_is_not_told(
    world: World, receiver: Receiver
) -> None:
    subscribed(world, receiver)
    world.put((PERSONAL, "messages", dict(m2(), subject="Oh")))
    world.put((PERSONAL, "messages", m2()))

    assert look() == []


def test_changes_of_a_stream_are_told_together(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)
    for number in range(3):
        world.put(new(f"n{number}"))
    look()
    world.put(new("late"))
    assert look() == []  # the one on its way has yet to arrive

    Event.unscoped.update(enqueued=False)
    work()
    work()

    first, second = receiver.changes
    assert (first["change_count_hint"], second["change_count_hint"]) == (3, 1)
    everything = world.get(
        "/v1/streams/messages/records", connection_id=PERSONAL, changes_since=first["changes_since"]
    )
    assert sorted(everything.ids) == ["late", "n0", "n1", "n2"]


def test_each_connection_is_told_of_by_itself(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)

    world.put(new(), (WORK, "messages", mail("w9", "2026-05-01T00:00:00Z")))
    work()

    assert sorted(told["connection_id"] for told in receiver.changes) == [PERSONAL, WORK]


def test_only_the_streams_asked_for_are_told_of(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver, "dora", filters={"streams": ["threads"]})

    world.put(new(), (PERSONAL, "threads", {"id": "t2", "topic": "Other"}))
    work()

    assert [told["stream"] for told in receiver.changes] == ["threads"]


def test_what_changes_before_the_verification_is_told_after_it(
    world: World, receiver: Receiver
) -> None:
    ask(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    world.put(new())

    work()
    work()

    assert [message.type for message in receiver.received] == [
        "pdpp.subscription.verify", "pdpp.records.changed"
    ]  # fmt: skip


def test_a_deletion_is_a_change(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)
    world.send([{"connection_id": PERSONAL, "stream": "messages", "key": "m2", "op": "delete"}])

    work()

    assert [told["change_count_hint"] for told in receiver.changes] == [1]


ENDED: dict[str, Change] = {
    "the grant": lambda world: revoke_grant(world.grants["bob"][0].grant_id, now=timezone.now()),
    "all the client holds": lambda world: revoke_package(
        world.packages["bob"].package_id, now=timezone.now()
    ),
}


@pytest.mark.parametrize("what", ENDED)
def test_a_revocation_stops_what_is_already_on_its_way(
    world: World, receiver: Receiver, what: str
) -> None:
    subscribed(world, receiver)
    world.put(new())
    [event_id] = look()

    ENDED[what](world)
    attempt(event_id)

    assert receiver.changes == []
    assert Subscription.unscoped.get().status == "disabled_revoked"
    assert Event.unscoped.get(pk=event_id).status == "dropped"
    work()
    assert len(receiver.of("pdpp.grant.revoked")) == 1


def test_what_is_paused_waits_until_it_is_resumed(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)
    world.put(new())
    [event_id] = look()
    client_id = world.packages["bob"].client_id

    pause_client(client_id, now=timezone.now())
    attempt(event_id)
    work()
    assert receiver.changes == []
    resume_client(client_id)
    work(timezone.now() + timedelta(seconds=31))

    assert len(receiver.changes) == 1


@pytest.mark.parametrize("noticed", [False, True])
def test_what_is_paused_beside_other_grants_waits_as_well(
    world: World, receiver: Receiver, noticed: bool
) -> None:
    """The tripwire pauses one grant of a package alone."""
    subscribed(world, receiver, "dora")
    [paused] = Grant.unscoped.filter(
        package=world.packages["dora"], streams__contains=[{"instance_ids": [PERSONAL]}]
    )
    world.put(new())
    late = look() if noticed else []

    Grant.unscoped.filter(pk=paused.pk).update(paused_at=timezone.now())
    for event_id in late:
        attempt(event_id)
    work()
    assert receiver.changes == []
    Grant.unscoped.filter(pk=paused.pk).update(paused_at=None)
    work(timezone.now() + timedelta(seconds=31))

    [told] = receiver.changes
    assert (told["connection_id"], told["change_count_hint"]) == (PERSONAL, 1)


def test_an_ended_connection_is_not_told_of(world: World, receiver: Receiver) -> None:

    subscribed(world, receiver)
    world.put(new())
    [event_id] = look()

    Connection.unscoped.filter(pk=PERSONAL).update(status=Connection.Status.REVOKED)
    attempt(event_id)

    assert receiver.changes == []
    assert Event.unscoped.get(pk=event_id).status == "dropped"


def test_what_a_narrower_grant_hides_is_not_told_any_more(world: World, receiver: Receiver) -> None:
    subscribed(world, receiver)
    world.put((PERSONAL, "messages", dict(m2(), subject="Another")))
    [event_id] = look()

    narrow(
        world.grants["bob"][0].grant_id,
        [StreamRequest(name="messages", fields=("id", "received_at"), since=SINCE)],
        connection_ids=[PERSONAL, WORK],
        expires_at=None,
        now=timezone.now(),
    )
    attempt(event_id)

    assert receiver.changes == []
    assert Event.unscoped.get(pk=event_id).status == "dropped"
    world.put(new())
    work()
    [told] = receiver.changes
    read = world.get(
        "/v1/streams/messages/records",
        connection_id=PERSONAL,
        changes_since=told["changes_since"],
    )
    assert read.ids == ["m9"]


def test_each_telling_is_in_the_ledger_before_it_goes_out(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed(world, receiver)
    world.put(new())
    counted: list[int] = []
    rows = Disclosure.unscoped.filter(route="event records changed")
    monkeypatch.setattr(
        "evidence.events.tasks.post",
        lambda *_, **__: counted.append(rows.count()) or Answered(200),
    )

    work()

    assert counted == [1]
    [row] = rows
    assert (row.record_count, row.token_id[:4], row.pseudonyms) == (0, "sub_", [])
    assert f'["{PERSONAL}","messages",[]]' in row.covered


def test_a_telling_counts_and_waits_where_the_limits_of_the_grant_are_used_up(
    world: World, receiver: Receiver
) -> None:
    subscribed(world, receiver)
    grant_id = world.grants["bob"][0].grant_id
    set_limits(grant_id, {("calls", "hour"): 1}, now=timezone.now())
    assert world.get("/v1/streams").status == 200
    world.put(new())

    work()

    assert receiver.changes == []
    event = Event.unscoped.get(type=Event.Type.CHANGED)
    assert (event.status, event.enqueued, event.attempts) == ("queued", False, 0)
    assert event.due_at > timezone.now()
    set_limits(grant_id, {}, now=timezone.now())
    work(event.due_at)
    assert len(receiver.changes) == 1


def test_what_cannot_be_recorded_is_not_sent(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed(world, receiver)
    world.put(new())
    [event_id] = look()

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("evidence.events.message_builder.record", fails)
    with pytest.raises(ZeroDivisionError):
        attempt(event_id)

    assert receiver.changes == []


def test_a_history_that_is_kept_no_more_is_told_as_a_new_beginning(
    world: World, receiver: Receiver
) -> None:
    subscribed(world, receiver)
    world.put(new())
    now = timezone.now()
    prune_changes(kept_since=now + timedelta(minutes=1))

    work(now + timedelta(minutes=2))

    assert [told["changes_since"] for told in receiver.changes] == ["beginning"]
    world.put(new("m11"))
    work(now + timedelta(minutes=3))
    assert receiver.changes[1]["changes_since"] != "beginning"
