"""Delivery attempts, retries, and which addresses may be called."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from evidence import limits
from evidence.events import webhook_client
from evidence.events.event_scheduler import attempt_delivery
from evidence.events.subscription_state import Outcome, Retry, decide_outcome
from evidence.events.webhook_client import WebhookResponse, post
from evidence.models.events import Event, Subscription
from tests.events.receiving import (
    Receiver,
    create_active_subscription,
    create_round,
    deliver_round,
    send_json,
)
from tests.events.test_changes import message_row
from tests.world import World

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SCHEDULE = (30, 120, 600, 3600, 21600, 86400)


def outcome_of(status: int | None, **extra: Any) -> Any:
    facts: dict[str, Any] = {"attempts": 0, "challenge": "", "created_at": NOW, "now": NOW}
    given = {name: extra.pop(name) for name in list(extra) if name in facts}
    return decide_outcome(
        WebhookResponse(status, **extra), jitter=lambda _low, _high: 1.0, **(facts | given)
    )


def test_retries_follow_schedule_then_disable_subscription(
    world: World, receiver: Receiver
) -> None:
    path, _ = create_active_subscription(world, receiver)
    world.put(message_row())
    receiver.status = 500
    now = timezone.now()
    deliver_round(now)
    for number, wait in enumerate(SCHEDULE, start=1):
        event = Event.unscoped.get(type=Event.Type.CHANGED)
        spread = (event.due_at - now).total_seconds() / wait
        assert (event.attempts, event.answered) == (number, 500)
        assert 0.8 <= spread <= 1.2
        assert create_round(event.due_at - timedelta(seconds=1)) == []
        now = event.due_at
        deliver_round(now)

    assert len(receiver.changes) == 1 + len(SCHEDULE)
    assert len({entry.envelope["id"] for entry in receiver.of("pdpp.records.changed")}) == 1
    subscription = world.get(path).body
    assert (subscription["status"], subscription["disabled_reason"]) == (
        "disabled_failure",
        "delivery_failed",
    )
    assert create_round(now + timedelta(days=30)) == []


def test_undelivered_changes_are_sent_after_reenabling(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    world.put(message_row())
    receiver.status = 410
    deliver_round()
    assert world.get(path).body["disabled_reason"] == "receiver_gone"
    world.put(message_row("m10"))
    receiver.status = 200
    assert create_round() == []

    send_json(world, "PATCH", path, enabled=True)
    deliver_round()
    deliver_round()

    read = world.get(
        "/v1/streams/messages/records",
        connection_id="cin_personal",
        changes_since=receiver.changes[-2]["changes_since"],
    )
    assert sorted(read.ids) == ["m10", "m9"]


def test_410_disables_subscription_at_once(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    send_json(world, "POST", f"{path}/test-event")
    receiver.status = 410

    deliver_round()
    deliver_round(timezone.now() + timedelta(days=2))

    assert world.get(path).body["status"] == "disabled_failure"
    assert len(receiver.of("pdpp.subscription.test")) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 60), ("5", 5), ("0", 1), ("86400", 86400), ("100000000000", 86400), ("soon", 60),
        ("-5", 60), ("", 60), (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 1), ("٣", 60),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 502, 504])
def test_retry_after_delays_without_counting_an_attempt(
    status: int, text: str | None, seconds: int
) -> None:
    decision = outcome_of(status, retry_after=text, attempts=6)

    assert decision == Retry(NOW + timedelta(seconds=seconds), counts=False)


def test_busy_receiver_is_given_up_eventually() -> None:
    since = NOW - timedelta(seconds=limits.EVENT_DEFERRED_MOST)

    assert outcome_of(429, created_at=since) is Outcome.GIVEN_UP


@pytest.mark.parametrize("status", [None, 100, 301, 302, 307, 400, 401, 404, 500, 503])
def test_other_statuses_are_retried(status: int | None) -> None:
    assert outcome_of(status) == Retry(NOW + timedelta(seconds=30), counts=True)
    assert outcome_of(status, attempts=5) == Retry(NOW + timedelta(seconds=86400), counts=True)
    assert outcome_of(status, attempts=6) is Outcome.GIVEN_UP


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_is_success(status: int) -> None:
    assert outcome_of(status) is Outcome.DELIVERED


def test_unverified_receiver_is_given_up(world: World, receiver: Receiver) -> None:
    receiver.echoes = False
    created = send_json(world, "POST", "/v1/event-subscriptions", callback_url=receiver.url).body
    deliver_round()
    for _ in SCHEDULE:
        deliver_round(Event.unscoped.get().due_at)

    subscription = world.get(f"/v1/event-subscriptions/{created['subscription_id']}").body
    assert subscription["disabled_reason"] == "verification_failed"
    assert len(receiver.received) == 1 + len(SCHEDULE)


def test_first_of_two_concurrent_attempts_counts(world: World, receiver: Receiver) -> None:
    """A worker that counted as dead can still store its outcome."""
    create_active_subscription(world, receiver)
    world.put(message_row())
    [event_id] = create_round()
    receiver.status = 500

    def slow(message: Any) -> WebhookResponse:
        attempt_delivery(event_id, send=lambda _message: WebhookResponse(200))
        return WebhookResponse(500)

    attempt_delivery(event_id, send=slow)

    event = Event.unscoped.get(pk=event_id)
    assert (event.status, event.attempts) == ("delivered", 0)


def test_subscription_disabled_during_attempt_stays_disabled(
    world: World, receiver: Receiver
) -> None:
    path, _ = create_active_subscription(world, receiver)
    send_json(world, "PATCH", path, enabled=False)
    send_json(world, "PATCH", path, enabled=True)
    [event_id] = create_round()

    def send(message: Any) -> WebhookResponse:
        send_json(world, "PATCH", path, enabled=False)
        return webhook_client.post(message.url, headers=message.headers, body=message.body)

    attempt_delivery(event_id, send=send)

    assert world.get(path).body["status"] == "disabled"


# --- addresses ---


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Resolve every name to these addresses, and return the list of names looked up."""
    lookups: list[str] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        lookups.append(host)
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in entry], 1, 6, "", (entry, port)) for entry in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return lookups


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "224.0.0.1",  # noqa: S104 an address to resolve, not to bind
    "255.255.255.255", "::", "::1", "fe80::1", "fd00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("local", [False, True])
def test_private_addresses_are_never_called(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, address: str, local: bool
) -> None:
    """One private address refuses the name, even beside public ones."""
    settings.PDPP_LOCAL_RECEIVERS = local
    resolve_to(monkeypatch, "8.8.8.8", address)
    monkeypatch.setattr(webhook_client, "_post_to", _never)

    response = post("https://receiver.example/hook", headers={}, body=b"{}")

    assert response == WebhookResponse(None)


@pytest.mark.parametrize("address", PRIVATE)
def test_ip_address_in_url_is_checked_like_a_name(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    literal = f"[{address}]" if ":" in address else address
    monkeypatch.setattr(webhook_client, "_post_to", _never)

    assert post(f"https://{literal}/hook", headers={}, body=b"{}") == WebhookResponse(None)


def test_connection_uses_the_checked_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is resolved once, so DNS rebinding has no effect."""
    lookups = resolve_to(monkeypatch, "8.8.8.8")
    sent: list[Any] = []

    async def catch(self: Any, request: Any, **_: Any) -> Any:
        sent.append(request)
        raise webhook_client.httpx2.ReadError("no answer")

    monkeypatch.setattr(webhook_client.httpx2.AsyncClient, "send", catch)

    assert post("https://receiver.example:8443/a?b=c", headers={}, body=b"{}") == WebhookResponse(
        None
    )
    [request] = sent
    assert lookups == ["receiver.example"]
    assert str(request.url) == "https://8.8.8.8:8443/a?b=c"
    assert request.headers["host"] == "receiver.example:8443"
    assert request.extensions["sni_hostname"] == "receiver.example"


def test_localhost_is_refused_unless_allowed(
    world: World, receiver: Receiver, settings: Settings
) -> None:
    path, _ = create_active_subscription(world, receiver)
    send_json(world, "POST", f"{path}/test-event")

    settings.PDPP_LOCAL_RECEIVERS = False
    deliver_round()

    assert receiver.of("pdpp.subscription.test") == []
    assert Event.unscoped.get(type=Event.Type.TEST).answered is None


def test_local_name_with_remote_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True
    resolve_to(monkeypatch, "127.0.0.1", "10.0.0.1")
    monkeypatch.setattr(webhook_client, "_post_to", _never)

    assert post("http://localhost:9/hook", headers={}, body=b"{}") == WebhookResponse(None)


def test_redirects_are_not_followed(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    receiver.status, receiver.headers = 307, {"Location": receiver.url + "/elsewhere"}
    send_json(world, "POST", f"{path}/test-event")

    deliver_round()

    assert [entry.path for entry in receiver.received] == ["/hook", "/hook"]
    assert Event.unscoped.get(type=Event.Type.TEST).attempts == 1


def test_proxy_environment_is_ignored(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    create_active_subscription(world, receiver)


def test_silent_receiver_times_out(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True
    monkeypatch.setattr(limits, "EVENT_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        assert post(f"http://127.0.0.1:{port}/", headers={}, body=b"{}") == WebhookResponse(None)


def test_response_body_is_read_up_to_a_limit(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "answer", lambda _message: (200, b"x" * 5_000_000))

    response = post(receiver.url, headers={}, body=b"{}")

    assert len(response.body) == webhook_client.MAX_BODY_BYTES


def test_unknown_event_is_ignored(world: World) -> None:
    attempt_delivery("evt_" + "0" * 24)

    assert not Subscription.unscoped.exists()


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the network was used")
