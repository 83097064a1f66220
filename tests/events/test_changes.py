"""Change events cover only what the grant shows, and carry a bookmark to read from."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import pause_client, resume_client, revoke_grant, revoke_package
from evidence.access.quotas import set_quotas
from evidence.events.event_scheduler import attempt_delivery
from evidence.events.webhook_client import WebhookResponse
from evidence.models.connections import Connection
from evidence.models.events import Event, Subscription
from evidence.models.grants import Grant
from evidence.models.ledger import Disclosure
from evidence.write.retention import prune_changes
from tests.events.receiving import (
    SUBSCRIPTIONS,
    Receiver,
    create_active_subscription,
    create_round,
    deliver_round,
    send_json,
)
from tests.world import CHAT, PERSONAL, WORK, World, mail

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
Change = Callable[[World], object]


def message_row(
    key: str = "m9", *, at: str = "2026-05-01T00:00:00Z", **extra: Any
) -> tuple[Any, ...]:
    return (PERSONAL, "messages", mail(key, at, **extra))


def test_change_event_has_a_bookmark(world: World, receiver: Receiver) -> None:
    path, secret = create_active_subscription(world, receiver)

    world.put(message_row(subject="The new lease", body_text="Top secret contents"))
    deliver_round()

    [change] = receiver.changes
    assert change == {
        "subscription_id": path.rpartition("/")[2],
        "stream": "messages",
        "connection_id": PERSONAL,
        "change_count_hint": 1,
        "changes_since": change["changes_since"],
    }
    [message] = receiver.of("pdpp.records.changed")
    assert message.verified(secret)["data"] == change
    for word in (b"lease", b"secret", b"body_text"):
        assert word not in message.content
    read = world.get(
        "/v1/streams/messages/records",
        connection_id=change["connection_id"],
        changes_since=change["changes_since"],
    )
    assert read.ids == ["m9"]


def test_bookmark_is_bound_to_its_client(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    deliver_round()
    [change] = receiver.changes

    read = world.get(
        "/v1/streams/messages/records",
        "dora",
        connection_id=change["connection_id"],
        changes_since=change["changes_since"],
    )

    assert read.error["code"] == "invalid_cursor"


HIDDEN: dict[str, Change] = {
    "a field outside the grant": lambda world: world.put(
        (PERSONAL, "messages", dict(m2(), size_bytes=501))
    ),
    "a record before the granted time": lambda world: world.put(
        message_row("old", at="2025-01-01T00:00:00Z")
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
def test_hidden_changes_create_no_event(world: World, receiver: Receiver, what: str) -> None:
    create_active_subscription(world, receiver)

    HIDDEN[what](world)

    assert create_round() == []
    assert not Event.unscoped.filter(type=Event.Type.CHANGED).exists()
    # The hidden change is checked once; a later visible change is sent as usual.
    world.put(message_row())
    deliver_round()
    assert [change["change_count_hint"] for change in receiver.changes] == [1]


def test_hidden_changes_do_not_alter_the_message(world: World, receiver: Receiver) -> None:
    """Messages with and without hidden changes differ only in random and encrypted members."""
    create_active_subscription(world, receiver)
    world.put(message_row("m9"))
    deliver_round()
    for make_hidden_change in HIDDEN.values():
        make_hidden_change(world)
    world.put(message_row("m10"))
    deliver_round()

    plain, beside = (
        dict(change, changes_since=len(change["changes_since"])) for change in receiver.changes
    )
    assert plain == beside


def test_a_change_that_was_taken_back_is_sent(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.put((PERSONAL, "messages", dict(m2(), subject="Oh")))
    world.put((PERSONAL, "messages", m2()))

    assert len(create_round()) == 1


def test_changes_of_one_stream_are_coalesced(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    for number in range(3):
        world.put(message_row(f"n{number}"))
    [event_id] = create_round()
    world.put(message_row("late"))
    assert create_round() == [event_id]  # the one on its way has yet to arrive

    deliver_round()
    deliver_round()

    first, second = receiver.changes
    assert (first["change_count_hint"], second["change_count_hint"]) == (3, 1)
    everything = world.get(
        "/v1/streams/messages/records", connection_id=PERSONAL, changes_since=first["changes_since"]
    )
    assert sorted(everything.ids) == ["late", "n0", "n1", "n2"]


def test_each_connection_has_its_own_event(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)

    world.put(message_row(), (WORK, "messages", mail("w9", "2026-05-01T00:00:00Z")))
    deliver_round()

    assert sorted(change["connection_id"] for change in receiver.changes) == [PERSONAL, WORK]


def test_only_requested_streams_create_events(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver, "dora", filters={"streams": ["threads"]})

    world.put(message_row(), (PERSONAL, "threads", {"id": "t2", "topic": "Other"}))
    deliver_round()

    assert [change["stream"] for change in receiver.changes] == ["threads"]


def test_changes_before_verification_are_sent_after_it(world: World, receiver: Receiver) -> None:
    send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    world.put(message_row())

    deliver_round()
    deliver_round()

    assert [message.type for message in receiver.received] == [
        "pdpp.subscription.verify", "pdpp.records.changed"
    ]  # fmt: skip


def test_deletion_creates_an_event(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.send([{"connection_id": PERSONAL, "stream": "messages", "key": "m2", "op": "delete"}])

    deliver_round()

    assert [change["change_count_hint"] for change in receiver.changes] == [1]


ENDED: dict[str, Change] = {
    "the grant": lambda world: revoke_grant(world.grants["bob"][0].grant_id, now=timezone.now()),
    "all the client holds": lambda world: revoke_package(
        world.packages["bob"].package_id, now=timezone.now()
    ),
}


@pytest.mark.parametrize("what", ENDED)
def test_revocation_drops_queued_events(world: World, receiver: Receiver, what: str) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    [event_id] = create_round()

    ENDED[what](world)
    attempt_delivery(event_id)

    assert receiver.changes == []
    assert Subscription.unscoped.get().status == "disabled_revoked"
    assert Event.unscoped.get(pk=event_id).status == "dropped"
    deliver_round()
    assert len(receiver.of("pdpp.grant.revoked")) == 1


def test_events_wait_while_grant_is_paused(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    [event_id] = create_round()
    client_id = world.packages["bob"].client_id

    pause_client(client_id, now=timezone.now())
    attempt_delivery(event_id)
    deliver_round()
    assert receiver.changes == []
    resume_client(client_id)
    deliver_round(timezone.now() + timedelta(seconds=31))

    assert len(receiver.changes) == 1


@pytest.mark.parametrize("noticed", [False, True])
def test_events_wait_while_one_grant_of_package_is_paused(
    world: World, receiver: Receiver, noticed: bool
) -> None:
    """The tripwire pauses only one grant of a package."""
    create_active_subscription(world, receiver, "dora")
    [paused] = Grant.unscoped.filter(
        package=world.packages["dora"], streams__contains=[{"instance_ids": [PERSONAL]}]
    )
    world.put(message_row())
    late = create_round() if noticed else []

    Grant.unscoped.filter(pk=paused.pk).update(paused_at=timezone.now())
    for event_id in late:
        attempt_delivery(event_id)
    deliver_round()
    assert receiver.changes == []
    Grant.unscoped.filter(pk=paused.pk).update(paused_at=None)
    deliver_round(timezone.now() + timedelta(seconds=31))

    [change] = receiver.changes
    assert (change["connection_id"], change["change_count_hint"]) == (PERSONAL, 1)


def test_ended_connection_creates_no_event(world: World, receiver: Receiver) -> None:

    create_active_subscription(world, receiver)
    world.put(message_row())
    [event_id] = create_round()

    Connection.unscoped.filter(pk=PERSONAL).update(status=Connection.Status.REVOKED)
    attempt_delivery(event_id)

    assert receiver.changes == []
    assert Event.unscoped.get(pk=event_id).status == "dropped"


def test_narrowed_grant_drops_queued_event(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.put((PERSONAL, "messages", dict(m2(), subject="Another")))
    [event_id] = create_round()

    narrow_grant(
        world.grants["bob"][0].grant_id,
        [StreamRequest(name="messages", fields=("id", "received_at"), since=SINCE)],
        connection_ids=[PERSONAL, WORK],
        expires_at=None,
        now=timezone.now(),
    )
    attempt_delivery(event_id)

    assert receiver.changes == []
    assert Event.unscoped.get(pk=event_id).status == "dropped"
    world.put(message_row())
    deliver_round()
    [change] = receiver.changes
    read = world.get(
        "/v1/streams/messages/records",
        connection_id=PERSONAL,
        changes_since=change["changes_since"],
    )
    assert read.ids == ["m9"]


def test_delivery_is_recorded_in_ledger_before_sending(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    counted: list[int] = []
    rows = Disclosure.unscoped.filter(route="event records changed")
    monkeypatch.setattr(
        "evidence.events.event_scheduler.post",
        lambda *_, **__: counted.append(rows.count()) or WebhookResponse(200),
    )

    deliver_round()

    assert counted == [1]
    [row] = rows
    assert (row.record_count, row.token_id[:4], row.record_digests) == (0, "sub_", [])
    assert f'["{PERSONAL}","messages",[]]' in row.covered


def test_delivery_counts_and_waits_at_the_grant_limit(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    grant_id = world.grants["bob"][0].grant_id
    set_quotas(grant_id, {("calls", "hour"): 1}, now=timezone.now())
    assert world.get("/v1/streams").status == 200
    world.put(message_row())

    deliver_round()

    assert receiver.changes == []
    event = Event.unscoped.get(type=Event.Type.CHANGED)
    assert (event.status, event.attempts) == ("queued", 0)
    assert event.due_at > timezone.now()
    set_quotas(grant_id, {}, now=timezone.now())
    deliver_round(event.due_at)
    assert len(receiver.changes) == 1


def test_event_is_not_sent_if_ledger_fails(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    [event_id] = create_round()

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("evidence.events.messages.record_disclosure", fails)
    with pytest.raises(ZeroDivisionError):
        attempt_delivery(event_id)

    assert receiver.changes == []


def test_expired_history_sends_beginning_as_bookmark(world: World, receiver: Receiver) -> None:
    create_active_subscription(world, receiver)
    world.put(message_row())
    now = timezone.now()
    prune_changes(kept_since=now + timedelta(minutes=1))

    deliver_round(now + timedelta(minutes=2))

    assert [change["changes_since"] for change in receiver.changes] == ["beginning"]
    world.put(message_row("m11"))
    deliver_round(now + timedelta(minutes=3))
    assert receiver.changes[1]["changes_since"] != "beginning"
