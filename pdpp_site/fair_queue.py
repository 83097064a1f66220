"""Fair scheduling: each caller runs a few requests at a time, and callers take turns.

A caller is a token, a session, or the client address of a request without either. A client with many
connections therefore delays only itself. Runs in the event loop; not thread-safe.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evidence.errors import ApiException, Code

RUNNING_PER_CALLER = 2
WAITING_PER_CALLER = 64


class TooManyRequests(ApiException):
    """Too many requests of this caller are waiting. Send fewer at once."""

    code = Code.TOO_MANY_REQUESTS


class FairQueue:
    """A number of places for running requests, given to waiting callers round robin."""

    def __init__(
        self,
        places: int,
        *,
        running_per_caller: int = RUNNING_PER_CALLER,
        waiting_per_caller: int = WAITING_PER_CALLER,
    ) -> None:
        self._free = places
        self._running_per_caller = running_per_caller
        self._waiting_per_caller = waiting_per_caller
        self._running: Counter[str] = Counter()
        # In round-robin order: a caller that gets a place moves to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def refuse_if_full(self, caller: str) -> None:
        """Raise TooManyRequests when too many requests of this caller are waiting."""
        if len(self._waiting.get(caller, ())) >= self._waiting_per_caller:
            raise TooManyRequests(next_step="Wait for the responses to earlier requests.")

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the block."""
        await self._acquire(caller)
        try:
            yield
        finally:
            self._release(caller)

    async def _acquire(self, caller: str) -> None:
        if self._free and caller not in self._waiting and self._may_run(caller):
            self._start(caller)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release(caller)
            raise

    def _release(self, caller: str) -> None:
        self._free += 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        while self._free and (next_caller := self._next()) is not None:
            self._start_waiting(next_caller)

    def _next(self) -> str | None:
        return next(filter(self._may_run, self._waiting), None)

    def _may_run(self, caller: str) -> bool:
        return self._running[caller] < self._running_per_caller

    def _start_waiting(self, caller: str) -> None:
        waiters = self._waiting.pop(caller)
        waiter = waiters.popleft()
        if waiters:
            self._waiting[caller] = waiters
        if not waiter.done():  # else the request was cancelled
            self._start(caller)
            waiter.set_result(None)

    def _start(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1
