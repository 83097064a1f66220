"""Fair scheduling: each caller runs a few requests at a time, owners take turns, and so do their callers.

A caller is a token, a session, or the client address of a request without either. A client with many
connections therefore delays only itself, and an owner with many apps only these. Runs in the event
loop; not thread-safe.
"""

import asyncio
import hashlib
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from django.conf import settings
from django.http import HttpRequest

from evidence.access.crypto import owner_of_bearer
from evidence.api.authentication import ON_ACCEPTED_KEY
from evidence.errors import ApiException, Code
from owner.permissions import known_owner
from pdpp_site.connections import client_key
from pdpp_site.wsgi_bridge import Scope

RUNNING_PER_CALLER = 2
WAITING_PER_CALLER = 64


class TooManyRequests(ApiException):
    """Too many requests of this caller are waiting. Send fewer at once."""

    code = Code.TOO_MANY_REQUESTS


class FairQueue:
    """A number of places for running requests, given to waiting owners and their callers round robin.

    The name of a caller of an owner begins with the owner's id and a slash.
    """

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
        self._running_of_owner: Counter[str] = Counter()
        self._last_turn: dict[str, int] = {}
        """Number of the latest place that each owner waited for, while there are requests of theirs."""
        self._turns = 0
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
        owner = _owner(caller)
        self._running_of_owner[owner] -= 1
        if not self._running_of_owner[owner]:
            del self._running_of_owner[owner]
            if all(_owner(each) != owner for each in self._waiting):
                self._last_turn.pop(owner, None)
        while self._free and (next_caller := self._next()) is not None:
            self._start_waiting(next_caller)

    def _next(self) -> str | None:
        return min(filter(self._may_run, self._waiting), key=self._claims, default=None)

    def _claims(self, caller: str) -> tuple[int, int]:
        """Sort key of who is next: the owner with the fewest requests, then who waited longest."""
        owner = _owner(caller)
        return self._running_of_owner[owner], self._last_turn.get(owner, 0)

    def _may_run(self, caller: str) -> bool:
        return self._running[caller] < self._running_per_caller

    def _start_waiting(self, caller: str) -> None:
        waiters = self._waiting.pop(caller)
        waiter = waiters.popleft()
        if waiters:
            self._waiting[caller] = waiters
        if not waiter.done():  # else the request was cancelled
            self._turns += 1
            self._last_turn[_owner(caller)] = self._turns
            self._start(caller)
            waiter.set_result(None)

    def _start(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1
        self._running_of_owner[_owner(caller)] += 1


def _owner(caller: str) -> str:
    return caller.partition("/")[0]


MAX_CREDENTIALS = 10_000
"""Number of accepted credentials to remember; the oldest is removed first."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is the key in a fair queue; call `accepted` when the credential is valid.

    For a session it is told the owner's id, which a token contains.
    """

    name: str
    accepted: Callable[..., None]


class Callers:
    """Identifies callers by keyed digests. The key belongs to this process and is never stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, str] = OrderedDict()
        """Accepted credentials, and their names in a fair queue."""

    def of_bearer(self, scope: Scope) -> Caller:
        """Return the caller of an API or MCP request, by its token or else its address."""
        headers = dict(scope["headers"])
        _, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        text = bearer.strip().decode("latin-1")
        owner_id = owner_of_bearer(text)
        return self._caller(scope, "bearer", bearer.strip(), owner_id)

    def of_session(self, scope: Scope) -> Caller:
        """Return the caller of a page request, by its session or else its address."""
        return self._caller(scope, "session", _session(dict(scope["headers"])))

    def _caller(self, scope: Scope, kind: str, credential: bytes, owner_id: str = "") -> Caller:
        address = client_key((scope.get("client") or ("", 0))[0])
        if not credential:
            return Caller(f"address {address}", lambda owner_id="": None)
        digest = hashlib.blake2b(credential, key=self._key, digest_size=16).hexdigest()
        key = f"{kind} {digest}"

        def remember(owner_id: str = owner_id) -> None:
            self._remember(key, f"{owner_id}/{key}" if owner_id else key)

        return Caller(self._known.get(key, f"address {address}"), remember)

    def _remember(self, key: str, name: str) -> None:
        # Called from threads. Each step is atomic, and the next request repeats a lost one.
        self._known[key] = name
        if len(self._known) > MAX_CREDENTIALS:
            self._known.popitem(last=False)


def accept_session(request: HttpRequest) -> None:
    """Report that the session of a request is signed in. Runs no query."""
    user = getattr(request, "_cached_user", None)  # set by AuthenticationMiddleware
    if user is not None and user.is_authenticated:
        owner = known_owner(user)
        request.META.get(ON_ACCEPTED_KEY, lambda owner_id: None)(owner.owner_id if owner else "")


def _session(headers: Mapping[bytes, bytes]) -> bytes:
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return b""
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return b"" if morsel is None else morsel.value.encode()
