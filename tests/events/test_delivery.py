"""Attempts, retries and the way out: as advertised, and to where the guard lets them."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from evidence import limits
from evidence.events import webhook_client
from evidence.events.delivery_outcome import Again, End, verdict
from evidence.events.tasks import attempt
from evidence.events.webhook_client import Answered, post
from evidence.models.events import Event, Subscription
from tests.events.receiving import Receiver, ask, look, subscribed, work
from tests.events.test_changes import new
from tests.world import World

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SCHEDULE = (30, 120, 600, 3600, 21600, 86400)


def judged(status: int | None, **more: Any) -> Any:
    facts: dict[str, Any] = {"attempts": 0, "challenge": "", "created_at": NOW, "now": NOW}
    given = {name: more.pop(name) for name in list(more) if name in facts}
    return verdict(Answered(status, **more), jitter=lambda _low, _high: 1.0, **(facts | given))


def test_retries_wait_as_long_as_is_advertised_and_then_the_receiver_is_switched_off(
    world: World, receiver: Receiver
) -> None:
    path, _ = subscribed(world, receiver)
    world.put(new())
    receiver.status = 500
    now = timezone.now()
    work(now)
    for number, wait in enumerate(SCHEDULE, start=1):
        event = Event.unscoped.get(type=Event.Type.CHANGED)
        spread = (event.due_at - now).total_seconds() / wait
        assert (event.attempts, event.answered) == (number, 500)
        assert 0.8 <= spread <= 1.2
        assert look(event.due_at - timedelta(seconds=1)) == []
        now = event.due_at
        work(now)

    assert len(receiver.changes) == 1 + len(SCHEDULE)
    assert len({each.envelope["id"] for each in receiver.of("pdpp.records.changed")}) == 1
    shown = world.get(path).body
    assert (shown["status"], shown["disabled_reason"]) == ("disabled_failure", "delivery_failed")
    assert look(now + timedelta(days=30)) == []


def test_what_could_not_be_delivered_is_told_once_the_receiver_is_back(
    world: World, receiver: Receiver
) -> None:
    path, _ = subscribed(world, receiver)
    world.put(new())
    receiver.status = 410
    work()
    assert world.get(path).body["disabled_reason"] == "receiver_gone"
    world.put(new("m10"))
    receiver.status = 200
    assert look() == []

    ask(world, "PATCH", path, enabled=True)
    work()
    work()

    read = world.get(
        "/v1/streams/messages/records",
        connection_id="cin_personal",
        changes_since=receiver.changes[-2]["changes_since"],
    )
    assert sorted(read.ids) == ["m10", "m9"]


def test_410_switches_off_at_once(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)
    ask(world, "POST", f"{path}/test-event")
    receiver.status = 410

    work()
    work(timezone.now() + timedelta(days=2))

    assert world.get(path).body["status"] == "disabled_failure"
    assert len(receiver.of("pdpp.subscription.test")) == 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, 60), ("5", 5), ("0", 1), ("86400", 86400), ("100000000000", 86400), ("soon", 60),
        ("-5", 60), ("", 60), (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 1), ("٣", 60),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 502, 504])
def test_a_busy_receiver_names_its_own_wait_and_uses_up_no_attempt(
    status: int, said: str | None, seconds: int
) -> None:
    found = judged(status, retry_after=said, attempts=6)

    assert found == Again(NOW + timedelta(seconds=seconds), counts=False)


def test_a_busy_receiver_is_not_waited_for_for_ever() -> None:
    since = NOW - timedelta(seconds=limits.EVENT_DEFERRED_MOST)

    assert judged(429, created_at=since) is End.GIVEN_UP


@pytest.mark.parametrize("status", [None, 100, 301, 302, 307, 400, 401, 404, 500, 503])
def test_everything_else_is_tried_again(status: int | None) -> None:
    assert judged(status) == Again(NOW + timedelta(seconds=30), counts=True)
    assert judged(status, attempts=5) == Again(NOW + timedelta(seconds=86400), counts=True)
    assert judged(status, attempts=6) is End.GIVEN_UP


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_success_is_one(status: int) -> None:
    assert judged(status) is End.DELIVERED


def test_a_receiver_that_never_proves_itself_is_given_up(world: World, receiver: Receiver) -> None:
    receiver.echoes = False
    made = ask(world, "POST", "/v1/event-subscriptions", callback_url=receiver.url).body
    work()
    for _ in SCHEDULE:
        work(Event.unscoped.get().due_at)

    shown = world.get(f"/v1/event-subscriptions/{made['subscription_id']}").body
    assert shown["disabled_reason"] == "verification_failed"
    assert len(receiver.received) == 1 + len(SCHEDULE)


def test_of_two_attempts_at_once_the_first_counts(world: World, receiver: Receiver) -> None:
    """A worker that was taken for dead may come back with its answer."""
    subscribed(world, receiver)
    world.put(new())
    [event_id] = look()
    receiver.status = 500

    def slow(message: Any) -> Answered:
        attempt(event_id, send=lambda _message: Answered(200))
        return Answered(500)

    attempt(event_id, send=slow)

    event = Event.unscoped.get(pk=event_id)
    assert (event.status, event.attempts) == ("delivered", 0)


def test_switched_off_meanwhile_it_stays_off(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)
    ask(world, "PATCH", path, enabled=False)
    ask(world, "PATCH", path, enabled=True)
    [event_id] = look()

    def send(message: Any) -> Answered:
        ask(world, "PATCH", path, enabled=False)
        return webhook_client.post(message.url, headers=message.headers, body=message.body)

    attempt(event_id, send=send)

    assert world.get(path).body["status"] == "disabled"


# --- the way out ---


def known_as(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Any name has these addresses; the list says which names were looked up."""
    asked: list[str] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in each], 1, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "224.0.0.1",  # noqa: S104 nothing listens, it is looked up
    "255.255.255.255", "::", "::1", "fe80::1", "fd00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("local", [False, True])
def test_nothing_is_sent_into_the_servers_own_network(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, address: str, local: bool
) -> None:
    """One address that is not of the internet refuses the name, whatever others it has."""
    settings.PDPP_LOCAL_RECEIVERS = local
    known_as(monkeypatch, "8.8.8.8", address)
    monkeypatch.setattr(webhook_client, "_sent", _never)

    answered = post("https://receiver.example/hook", headers={}, body=b"{}")

    assert answered == Answered(None)


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_in_place_of_a_name_is_judged_alike(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    literal = f"[{address}]" if ":" in address else address
    monkeypatch.setattr(webhook_client, "_sent", _never)

    assert post(f"https://{literal}/hook", headers={}, body=b"{}") == Answered(None)


def test_the_connection_goes_to_the_address_that_was_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is another's a moment later (rebinding) is not looked up again."""
    asked = known_as(monkeypatch, "8.8.8.8")
    sent: list[Any] = []

    async def catch(self: Any, request: Any, **_: Any) -> Any:
        sent.append(request)
        raise webhook_client.httpx2.ReadError("no answer")

    monkeypatch.setattr(webhook_client.httpx2.AsyncClient, "send", catch)

    assert post("https://receiver.example:8443/a?b=c", headers={}, body=b"{}") == Answered(None)
    [request] = sent
    assert asked == ["receiver.example"]
    assert str(request.url) == "https://8.8.8.8:8443/a?b=c"
    assert request.headers["host"] == "receiver.example:8443"
    assert request.extensions["sni_hostname"] == "receiver.example"


def test_this_machine_is_out_of_reach_unless_the_operator_lets_it(
    world: World, receiver: Receiver, settings: Settings
) -> None:
    path, _ = subscribed(world, receiver)
    ask(world, "POST", f"{path}/test-event")

    settings.PDPP_LOCAL_RECEIVERS = False
    work()

    assert receiver.of("pdpp.subscription.test") == []
    assert Event.unscoped.get(type=Event.Type.TEST).answered is None


def test_a_local_name_that_leads_elsewhere_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True
    known_as(monkeypatch, "127.0.0.1", "10.0.0.1")
    monkeypatch.setattr(webhook_client, "_sent", _never)

    assert post("http://localhost:9/hook", headers={}, body=b"{}") == Answered(None)


def test_redirects_lead_nowhere(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)
    receiver.status, receiver.headers = 307, {"Location": receiver.url + "/elsewhere"}
    ask(world, "POST", f"{path}/test-event")

    work()

    assert [each.path for each in receiver.received] == ["/hook", "/hook"]
    assert Event.unscoped.get(type=Event.Type.TEST).attempts == 1


def test_proxies_of_the_environment_are_not_used(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    subscribed(world, receiver)


def test_a_receiver_that_does_not_answer_is_left_after_a_while(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True
    monkeypatch.setattr(limits, "EVENT_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        assert post(f"http://127.0.0.1:{port}/", headers={}, body=b"{}") == Answered(None)


def test_only_the_beginning_of_an_answer_is_read(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "answer", lambda _message: (200, b"x" * 5_000_000))

    answered = post(receiver.url, headers={}, body=b"{}")

    assert len(answered.body) == webhook_client.ANSWER_BYTES


def test_the_subscription_of_nobody_is_left_alone(world: World) -> None:
    attempt("evt_" + "0" * 24)

    assert not Subscription.unscoped.exists()


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the network was used")
