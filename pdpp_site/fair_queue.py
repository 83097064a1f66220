"""Fair scheduling: each caller runs a few requests at a time, and callers take turns.

A caller is a token, a session, or the client address of a request that has neither. So a client
with many connections delays itself, and another client waits at most for one turn of each caller.
Runs in the event loop; no method is thread-safe.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evidence.errors import Code, Refusal

RUNNING_PER_CALLER = 2
WAITING_PER_CALLER = 64


class TooManyRequests(Refusal):
    """Too many of your requests wait here. Send fewer at once."""

    code = Code.TOO_MANY_REQUESTS


class FairQueue:
    """Places for requests that run, given to waiting callers in turn (round robin)."""

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
        # In the order of turns: who gets a place goes to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def refuse_if_full(self, caller: str) -> None:
        """Raise ``TooManyRequests`` when as many requests of this caller wait as may."""
        if len(self._waiting.get(caller, ())) >= self._waiting_per_caller:
            raise TooManyRequests(next_step="Wait for the answers to your earlier requests.")

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the block."""
        await self._take(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    async def _take(self, caller: str) -> None:
        if self._free and caller not in self._waiting and self._may_run(caller):
            self._start(caller)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(caller)
            raise

    def _give_back(self, caller: str) -> None:
        self._free += 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        while self._free and (following := self._next()) is not None:
            self._start_waiting(following)

    def _next(self) -> str | None:
        return next(filter(self._may_run, self._waiting), None)

    def _may_run(self, caller: str) -> bool:
        return self._running[caller] < self._running_per_caller

    def _start_waiting(self, caller: str) -> None:
        turns = self._waiting.pop(caller)
        turn = turns.popleft()
        if turns:
            self._waiting[caller] = turns
        if not turn.done():  # else its request was cancelled while it waited
            self._start(caller)
            turn.set_result(None)

    def _start(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1
