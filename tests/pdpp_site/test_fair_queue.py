"""Callers take turns, and no caller runs more than a few requests at once."""

import asyncio
from typing import Any

import pytest

from pdpp_site.fair_queue import Callers, FairQueue, TooManyRequests


class Order:
    """Requests that run until told to end; who began, in order."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, *names: str) -> None:
        """One request a name; its caller is the first letter."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._request(name))
            await _settled()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await _settled()

    async def leave(self, name: str) -> None:
        self._tasks[name].cancel()
        await _settled()

    async def _request(self, name: str) -> None:
        async with self._queue.place(name.rstrip("0123456789")):
            self.began.append(name)
            await self._ends[name].wait()


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_caller_with_many_requests_waits_for_itself() -> None:
    async def run() -> None:
        order = Order(FairQueue(4, running_per_caller=2))
        await order.send("a1", "a2", "a3", "a4", "a5", "b1")
        assert order.began == ["a1", "a2", "b1"]
        await order.end("a1")
        assert order.began[3:] == ["a3"]

    asyncio.run(run())


def test_waiting_callers_are_served_round_robin() -> None:
    async def run() -> None:
        order = Order(FairQueue(1, running_per_caller=1))
        await order.send("a1", "a2", "a3", "a4", "b1", "b2", "c1")
        await order.end("a1", "a2", "b1", "c1", "a3", "b2")
        assert order.began == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]

    asyncio.run(run())


def test_owners_are_served_round_robin_however_many_apps_they_have() -> None:
    async def run() -> None:
        order = Order(FairQueue(1, running_per_caller=1))
        await order.send("x/a1", "x/a2", "x/b1", "x/c1", "x/d1", "y/a1", "y/a2")
        await order.end("x/a1", "x/a2", "y/a1", "x/b1", "y/a2", "x/c1")
        assert order.began == ["x/a1", "x/a2", "y/a1", "x/b1", "y/a2", "x/c1", "x/d1"]

    asyncio.run(run())


def test_an_owner_with_fewer_running_requests_goes_first() -> None:
    async def run() -> None:
        order = Order(FairQueue(3, running_per_caller=1))
        await order.send("x/a1", "x/b1", "x/c1", "x/d1", "x/e1", "y/a1")
        await order.end("x/a1")
        assert order.began[3:] == ["y/a1"]

    asyncio.run(run())


def test_a_request_that_leaves_keeps_no_place() -> None:
    async def run() -> None:
        order = Order(FairQueue(1, running_per_caller=1))
        await order.send("a1", "a2", "b1")
        await order.leave("a2")
        await order.leave("a1")
        assert order.began == ["a1", "b1"]
        await order.end("b1")
        await order.send("a3")
        assert order.began == ["a1", "b1", "a3"]

    asyncio.run(run())


def test_beyond_a_full_queue_a_caller_gets_retry_after() -> None:
    async def run() -> None:
        queue = FairQueue(1, running_per_caller=1, waiting_per_caller=2)
        order = Order(queue)
        await order.send("a1", "a2", "a3")
        with pytest.raises(TooManyRequests):
            queue.refuse_if_full("a")
        queue.refuse_if_full("b")

    asyncio.run(run())


def request_of(bearer: str, *, address: str = "192.0.2.1") -> dict[str, Any]:
    headers = [(b"authorization", f"Bearer {bearer}".encode())]
    return {"headers": headers, "client": (address, 4711)}


def test_a_token_is_a_caller_of_its_own_once_it_was_accepted() -> None:
    callers = Callers()
    first = callers.of_bearer(request_of("good"))
    assert first.name == callers.of_bearer(request_of("another")).name
    first.accepted()
    assert callers.of_bearer(request_of("good")).name != first.name
    assert callers.of_bearer(request_of("good", address="192.0.2.9")).name == (
        callers.of_bearer(request_of("good")).name
    )
    assert callers.of_bearer(request_of("another")).name == first.name


def test_made_up_tokens_of_one_address_are_one_caller() -> None:
    callers = Callers()
    names = {callers.of_bearer(request_of(f"made-up-{number}")).name for number in range(100)}
    assert len(names) == 1
    assert "made-up" not in callers.of_bearer(request_of("made-up-1")).name


def test_tokens_of_one_owner_are_grouped() -> None:
    callers = Callers()
    tokens = ["pdpp_at_alice_1", "pdpp_own_alice_2", "pdpp_at_bruno_3"]
    for token in tokens:
        callers.of_bearer(request_of(token)).accepted()

    names = [callers.of_bearer(request_of(token)).name for token in tokens]

    assert [name.partition("/")[0] for name in names] == ["alice", "alice", "bruno"]
    assert len(set(names)) == 3
