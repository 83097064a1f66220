"""Requests that wait for changes: no thread and no database connection each, but a place in a table.

One task asks, for all of them together, which connections have changed and which grants still hold. A
request whose connections or grants have changed is run again from the start, bearer and gate included; if
there is still nothing that its grant shows, it goes on waiting. So what is hidden wakes nobody, and
who lost the grant is told so at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl

from django.db import Error
from django.utils import timezone

from evidence import limits
from evidence.access.change_log import latest_changes
from evidence.access.grant_states import read_through
from evidence.api.long_poll import KEY, Held, Wish
from evidence.errors import Refusal
from mcp_adapter.inprocess import releasing
from pdpp_site.wsgi_bridge import Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5


class Run(Protocol):
    """Run a complete request once, with ``extras`` in its environment."""

    def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, extras: Mapping[str, object]
    ) -> Awaitable[Refusal | None]: ...


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits. ``last`` when it is to be answered whatever there is."""

    wish: Wish
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    last: bool = False

    def wake(self, *, last: bool = False) -> None:
        self.last = self.last or last
        self.woken.set()


class Waits:
    """All requests of this process that wait, by token: a later one ends the wait of the earlier."""

    def __init__(self, *, most: int = limits.WAITING_MOST, poll: float = POLL_SECONDS) -> None:
        self._most, self._poll = most, poll
        self._waiting: dict[str, Waiting] = {}
        self._running = 0
        self._ended = False
        self._asking: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="waits")

    async def answer(self, run: Run, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        """Answers the request, at once or later. The refusal is for the caller to answer with."""
        full = self._running >= self._most
        self._running += 1
        try:
            return await self._answer(run, scope, receive, send, full=full)
        finally:
            self._running -= 1

    async def _answer(
        self, run: Run, scope: Scope, receive: Receive, send: Send, *, full: bool
    ) -> Refusal | None:
        clock = asyncio.get_running_loop().time
        began, last = clock(), full
        while True:
            held = Held(open=not (last or self._ended), full=full)
            answer = _unless_waiting(send, held)
            refusal = await run(scope, receive, answer, extras={KEY: held})
            if refusal is not None or held.wish is None:
                return refusal
            left = began + held.wish.seconds - clock()
            waiting = await self._wait(held.wish, receive, seconds=left)
            if waiting is None:
                return None
            last = waiting.last

    async def _wait(self, wish: Wish, receive: Receive, *, seconds: float) -> Waiting | None:
        """Until something has changed or time is up; None when the client has gone."""
        waiting = Waiting(wish)
        earlier = self._waiting.get(wish.token_id)
        if earlier is not None:
            earlier.wake(last=True)
        self._waiting[wish.token_id] = waiting
        self._ask()
        gone = asyncio.create_task(_gone(receive))
        woken = asyncio.create_task(waiting.woken.wait())
        try:
            done, _ = await asyncio.wait(
                {gone, woken}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            gone.cancel()
            woken.cancel()
            if self._waiting.get(wish.token_id) is waiting:
                del self._waiting[wish.token_id]
        if gone in done:
            return None
        waiting.last = waiting.last or not done
        return waiting

    def _ask(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._keep_asking())

    async def _keep_asking(self) -> None:
        """One question for all, as long as anybody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._ended:
            wanted = {each for waiting in self._waiting.values() for each in waiting.wish.seen}
            with contextlib.suppress(Error):
                latest, grants = await loop.run_in_executor(
                    self._thread, _now, wanted, set(self._waiting)
                )
                self._wake(latest, grants)
            await asyncio.sleep(self._poll)

    def _wake(self, latest: Mapping[str, int], grants: Mapping[str, frozenset[str]]) -> None:
        for waiting in list(self._waiting.values()):
            wish = waiting.wish
            moved = any(each in latest and latest[each] != seq for each, seq in wish.seen.items())
            if moved or grants.get(wish.token_id) != wish.grants:
                waiting.wake()

    def end(self) -> None:
        """Everybody is answered now, and nobody waits any more: the server is about to stop."""
        self._ended = True
        for waiting in list(self._waiting.values()):
            waiting.wake(last=True)

    def close(self) -> None:
        self.end()
        if self._asking is not None:
            self._asking.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def asks_to_wait(scope: Scope) -> bool:
    """Whether a request may have to wait; whether it is one that can is for its view to say."""
    query = scope["query_string"].decode("latin-1")
    return "wait" in query and any(name == "wait" for name, _ in parse_qsl(query))


def _now(
    connection_ids: set[str], token_ids: set[str]
) -> tuple[Mapping[str, int], Mapping[str, frozenset[str]]]:
    """The latest change of each connection, and what each token reads through."""
    return releasing(
        lambda: (latest_changes(connection_ids), read_through(token_ids, now=timezone.now()))
    )


def _unless_waiting(send: Send, held: Held) -> Send:
    """What a run has to say, unless it says that it waits."""

    async def say(message: Message) -> None:
        if held.wish is None:
            await send(message)

    return say


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
