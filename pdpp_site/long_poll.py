"""Long polling, server side: keep waiting requests without a thread or a database connection.

One task polls, for all waiting requests together, which connections have changed and which grants are
active. A request whose connections or grants have changed runs again from the start, through
authentication and gate; if its grant shows no change, it keeps waiting. Hidden changes therefore answer
no request, and a request whose grant was revoked is answered at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from django.db import Error
from django.utils import timezone

from evidence import limits
from evidence.access.change_log import latest_change_numbers
from evidence.access.grant_states import active_grants_by_token
from evidence.api.views.changes import ENVIRON_KEY, LongPoll, WaitCondition
from evidence.errors import ApiException
from evidence.models.owners import acting_for
from mcp_adapter.inprocess import run_and_release
from pdpp_site.wsgi_bridge import Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5


class RunRequest(Protocol):
    """Run a complete request once, with `extras` in its WSGI environment."""

    def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, extras: Mapping[str, object]
    ) -> Awaitable[ApiException | None]: ...


class OwnerState(NamedTuple):
    """The latest change number per connection, and the active grants per token."""

    latest: Mapping[str, int]
    grants: Mapping[str, frozenset[str]]


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request that waits. `last`: the next run is answered even without changes."""

    condition: WaitCondition
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    last: bool = False

    def wake(self, *, last: bool = False) -> None:
        self.last = self.last or last
        self.woken.set()


class LongPolls:
    """The waiting requests of this process, by token. A new one ends the wait of the previous one."""

    def __init__(
        self, *, max_waiting: int = limits.WAITING_MOST, poll: float = POLL_SECONDS
    ) -> None:
        self._max_waiting, self._poll = max_waiting, poll
        self._waiting: dict[str, WaitingRequest] = {}
        self._running = 0
        self._ended = False
        self._poll_task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="waits")

    async def answer(
        self, run: RunRequest, scope: Scope, receive: Receive, send: Send
    ) -> ApiException | None:
        """Respond to the request, at once or later, or return the error for the caller to send."""
        full = self._running >= self._max_waiting
        self._running += 1
        try:
            return await self._answer(run, scope, receive, send, full=full)
        finally:
            self._running -= 1

    async def _answer(
        self, run: RunRequest, scope: Scope, receive: Receive, send: Send, *, full: bool
    ) -> ApiException | None:
        clock = asyncio.get_running_loop().time
        began, last = clock(), full
        while True:
            long_poll = LongPoll(open=not (last or self._ended), full=full)
            send_unless_waiting = _unless_waiting(send, long_poll)
            error = await run(scope, receive, send_unless_waiting, extras={ENVIRON_KEY: long_poll})
            if error is not None or long_poll.condition is None:
                return error
            if self._ended:  # while the view ran; from now on it may not wait
                continue
            seconds_left = began + long_poll.condition.seconds - clock()
            waiting = await self._wait(long_poll.condition, receive, seconds=seconds_left)
            if waiting is None:
                return None
            last = waiting.last

    async def _wait(
        self, condition: WaitCondition, receive: Receive, *, seconds: float
    ) -> WaitingRequest | None:
        """Wait until a change or the timeout. Return None if the client disconnected."""
        waiting = WaitingRequest(condition)
        previous = self._waiting.get(condition.token_id)
        if previous is not None:
            previous.wake(last=True)
        self._waiting[condition.token_id] = waiting
        self._start_polling()
        disconnected = asyncio.create_task(_await_disconnect(receive))
        woken = asyncio.create_task(waiting.woken.wait())
        try:
            done, _ = await asyncio.wait(
                {disconnected, woken}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            disconnected.cancel()
            woken.cancel()
            if self._waiting.get(condition.token_id) is waiting:
                del self._waiting[condition.token_id]
        if disconnected in done:
            return None
        waiting.last = waiting.last or not done
        return waiting

    def _start_polling(self) -> None:
        if self._poll_task is None or self._poll_task.done():
            self._poll_task = asyncio.create_task(self._poll_changes())

    async def _poll_changes(self) -> None:
        """Poll for all waiting requests, while there are any."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._ended:
            conditions: dict[str, list[WaitCondition]] = {}
            for waiting in self._waiting.values():
                conditions.setdefault(waiting.condition.owner_id, []).append(waiting.condition)
            with contextlib.suppress(Error):
                self._wake(await loop.run_in_executor(self._thread, _read_state, conditions))
            await asyncio.sleep(self._poll)

    def _wake(self, state: Mapping[str, OwnerState]) -> None:
        for waiting in list(self._waiting.values()):
            condition = waiting.condition
            if condition.owner_id not in state:  # it began to wait after the poll
                continue
            latest, grants = state[condition.owner_id]
            has_changed = any(
                connection_id in latest and latest[connection_id] != seq
                for connection_id, seq in condition.seen.items()
            )
            if has_changed or grants.get(condition.token_id) != condition.grants:
                waiting.wake()

    def end(self) -> None:
        """Answer all waiting requests now, because the server stops."""
        self._ended = True
        for waiting in list(self._waiting.values()):
            waiting.wake(last=True)

    def close(self) -> None:
        self.end()
        if self._poll_task is not None:
            self._poll_task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def is_long_poll(scope: Scope) -> bool:
    """Return whether the query has a `wait` parameter. The view decides whether it waits."""
    query = scope["query_string"].decode("latin-1")
    return "wait" in query and any(name == "wait" for name, _ in parse_qsl(query))


def _read_state(waiting: Mapping[str, Sequence[WaitCondition]]) -> Mapping[str, OwnerState]:
    """Return the state of each owner whose apps wait."""
    return run_and_release(
        lambda: {owner_id: _state_of(owner_id, own) for owner_id, own in waiting.items()}
    )


def _state_of(owner_id: str, conditions: Sequence[WaitCondition]) -> OwnerState:
    with acting_for(owner_id):
        connection_ids = {each for condition in conditions for each in condition.seen}
        tokens = {condition.token_id for condition in conditions}
        return OwnerState(
            latest_change_numbers(connection_ids),
            active_grants_by_token(tokens, now=timezone.now()),
        )


def _unless_waiting(send: Send, long_poll: LongPoll) -> Send:
    """Return a `send` that discards the response once the view has set a wait condition."""

    async def send_response(message: Message) -> None:
        if long_poll.condition is None:
            await send(message)

    return send_response


async def _await_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
