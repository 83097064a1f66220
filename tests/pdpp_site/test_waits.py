"""Reads that wait until there is something to tell: over the real site, and its parts."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from evidence import limits
from evidence.access.grants import pause_client, revoke_package
from evidence.api.views.changes import ENVIRON_KEY, LongPoll, WaitCondition
from evidence.models.grants import Package
from evidence.models.ledger import Disclosure
from pdpp_site import mcp_endpoints
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.long_poll import LongPolls, WaitingRequest
from pdpp_site.wsgi import application
from tests.events.test_changes import HIDDEN, message_row
from tests.owners import OWNER_ID
from tests.pdpp_site.web import Web, served
from tests.world import World

LONG = 600
"""Far longer than PATIENCE, so that what arrives in time was not sent because the wait was over."""
PATIENCE = 60.0
pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


class Waited:
    """A request that runs in a thread of its own."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    @property
    def is_answered(self) -> bool:
        return self._future.done()

    def body(self) -> dict[str, Any]:
        answer = self._future.result(PATIENCE)
        body: dict[str, Any] = json.loads(answer.content)
        return body


class Served:
    def __init__(self, world: World, web: Web, site: AsgiApp, threads: ThreadPoolExecutor) -> None:
        self.world, self.web, self.site, self._threads = world, web, site, threads

    def now(self, who: str = "bob") -> str:
        """The bookmark after everything there is."""
        since, more = "beginning", True
        while more:
            body = self.world.get(
                "/v1/streams/messages/records", who, connection_id="cin_personal",
                changes_since=since,
            ).body  # fmt: skip
            since, more = body["next_changes_since"], body["has_more"]
        return str(since)

    def ask(self, since: str, *, wait: int = LONG, who: str = "bob") -> Waited:
        """Begin to wait, and return once the server really does."""
        before = self.waiting
        query = urlencode(
            {"connection_id": "cin_personal", "changes_since": since, "wait": str(wait)}
        )
        bearer = self.world.tokens[who]
        path = f"/v1/streams/messages/records?{query}"
        waited = Waited(self._threads.submit(self.web.get, path, Authorization=f"Bearer {bearer}"))
        until(lambda: waited.is_answered or self.waiting != before)
        return waited

    @property
    def waiting(self) -> frozenset[WaitingRequest]:
        """The requests themselves: the id of one that has ended may be given to the next."""
        return frozenset(self.site._long_polls._waiting.values())


def until(true: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.01)


@contextmanager
def serving(world: World, **options: Any) -> Iterator[Served]:
    site = AsgiApp(application=application, endpoint=mcp_endpoints.endpoint())
    for name, value in options.items():
        setattr(site._long_polls, name, value)
    with (
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor(4) as threads,
        served(site, ending=site.stop_waiting) as web,
    ):
        patch.setattr(limits, "WAIT_SECONDS", LONG)
        yield Served(world, web, site, threads)


def test_a_change_is_sent_as_soon_as_it_is_stored(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        waited = site.ask(site.now())
        assert not waited.is_answered

        committed.put(message_row())

        assert [row["id"] for row in waited.body()["data"]] == ["m9"]


@pytest.mark.parametrize("what", ["a field outside the grant", "a record before the granted time"])
def test_what_the_grant_hides_wakes_nobody(committed: World, what: str) -> None:
    with serving(committed, _poll=0.02) as site:
        waited = site.ask(site.now())
        assert not waited.is_answered
        before = site.waiting

        HIDDEN[what](committed)

        until(lambda: site.waiting != before)  # it was looked at, and goes on waiting
        assert not waited.is_answered
        committed.put(message_row())
        assert [row["id"] for row in waited.body()["data"]] == ["m9"]


def test_time_that_is_up_is_answered_with_a_new_bookmark(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        body = site.ask(site.now(), wait=1).body()

    assert (body["data"], body["has_more"]) == ([], False)
    assert body["next_changes_since"]
    assert body["meta"]["warnings"] == []


def test_only_what_is_answered_is_in_the_ledger(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        since = site.now()
        rows = Disclosure.unscoped.count()
        waited = site.ask(since)
        HIDDEN["a field outside the grant"](committed)
        assert Disclosure.unscoped.count() == rows

        committed.put(message_row())
        waited.body()

        assert Disclosure.unscoped.count() == rows + 1


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (lambda bob: revoke_package(bob.package_id, now=timezone.now()), "grant_revoked"),
        (lambda bob: pause_client(bob.client_id, now=timezone.now()), "grant_paused"),
    ],
)
def test_a_client_that_loses_its_grant_while_waiting_is_refused_at_once(
    committed: World, ending: Callable[[Package], object], code: str
) -> None:
    with serving(committed, _poll=0.02) as site:
        waited, goes_on = site.ask(site.now()), site.ask(site.now("alice"), who="alice")

        ending(committed.packages["bob"])

        assert waited.body()["error"]["code"] == code
        assert not goes_on.is_answered


def test_of_one_token_the_later_request_waits(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        since = site.now()
        earlier = site.ask(since)
        later = site.ask(since)

        assert earlier.body()["data"] == []
        assert not later.is_answered
        committed.put(message_row())
        assert len(later.body()["data"]) == 1


def test_waiting_takes_no_thread(committed: World, settings: Settings) -> None:
    settings.PDPP_THREADS = 1
    with serving(committed, _poll=0.02) as site:
        waited = site.ask(site.now())

        assert json.loads(site.web.get("/v1/openapi.json").content)["openapi"]
        assert not waited.is_answered
        committed.put(message_row())
        waited.body()


def test_without_room_it_is_answered_at_once_and_says_so(committed: World) -> None:
    with serving(committed, _max_waiting=0) as site:
        body = site.ask(site.now()).body()

    assert body["data"] == []
    assert [each["code"] for each in body["meta"]["warnings"]] == ["wait_not_held"]


def test_the_server_stops_without_waiting_for_those_who_wait(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        waited = site.ask(site.now())

    # A request that still waited when the time for shutting down was over would have no answer.
    assert waited.body()["data"] == []


def test_a_client_that_goes_is_forgotten(committed: World) -> None:
    with serving(committed, _poll=0.02) as site:
        query = urlencode({"changes_since": site.now("dora"), "connection_id": "cin_personal"})
        with site.web.dial() as line:
            line.sendall(
                f"GET /v1/streams/messages/records?{query}&wait={LONG} HTTP/1.1\r\nHost: 127.0.0.1"
                f"\r\nAuthorization: Bearer {committed.tokens['dora']}\r\n\r\n".encode()
            )
            until(lambda: site.waiting)
        until(lambda: not site.waiting)
        until(lambda: site.site._long_polls._running == 0)


def test_existing_changes_are_sent_at_once(committed: World) -> None:
    with serving(committed) as site:
        since = site.now()
        committed.put(message_row())

        assert [row["id"] for row in site.ask(since).body()["data"]] == ["m9"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"wait": "5"}, "wait"),
        ({"changes_since": "beginning", "wait": "0"}, "wait"),
        ({"changes_since": "beginning", "wait": "soon"}, "wait"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(
    committed: World, query: dict[str, str], param: str
) -> None:
    refused = committed.get("/v1/streams/messages/records", **query)

    assert (refused.status, refused.error["param"]) == (400, param)


def test_under_plain_wsgi_it_is_answered_at_once_and_says_so(committed: World) -> None:
    with serving(committed) as site:
        since = site.now()
    answer = committed.get(
        "/v1/streams/messages/records",
        connection_id="cin_personal", changes_since=since, wait="500",
    )  # fmt: skip

    codes = [each["code"] for each in answer.body["meta"]["warnings"]]
    assert codes == ["limit_clamped", "wait_not_held"]


def test_no_header_makes_a_view_believe_that_it_is_kept(committed: World) -> None:
    """What the server leaves in the environment has a name that no header can take."""
    since = committed.get(
        "/v1/streams/messages/records", connection_id="cin_personal", changes_since="beginning"
    ).body["next_changes_since"]
    client = Client(headers={"Authorization": f"Bearer {committed.tokens['bob']}"})

    answer = client.get(
        "/v1/streams/messages/records",
        {"connection_id": "cin_personal", "changes_since": since, "wait": "5"},
        headers={"pdpp.held": "1", "Pdpp-Held": "1"},
    )

    assert answer.json()["data"] == []


def test_a_request_that_is_read_while_the_server_stops_does_not_wait_afterwards() -> None:
    polls = LongPolls()
    may_wait = []

    async def run(scope: Any, receive: Any, send: Any, *, extras: dict[str, LongPoll]) -> None:
        may_wait.append(extras[ENVIRON_KEY].open)
        if extras[ENVIRON_KEY].open:
            polls.end()
            extras[ENVIRON_KEY].condition = WaitCondition(OWNER_ID, "token", LONG, {}, frozenset())

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    async def answer() -> None:
        await asyncio.wait_for(polls.answer(run, {}, receive, send), PATIENCE)

    asyncio.run(answer())

    assert may_wait == [True, False]
