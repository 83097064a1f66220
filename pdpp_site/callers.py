"""Identify the caller of a request for fair scheduling, without a query.

A token or session is a caller of its own once it was accepted. Before, its requests count for the
client address, so invented tokens give no advantage.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from django.conf import settings
from django.http import HttpRequest

from evidence.api.authentication import ON_ACCEPTED_KEY
from pdpp_site.connections import client_key
from pdpp_site.wsgi_bridge import Scope

MAX_CREDENTIALS = 10_000
"""Number of accepted credentials to remember; the oldest is removed first."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is the key in a fair queue; call `accepted` when the credential is valid."""

    name: str
    accepted: Callable[[], None]


class Callers:
    """Identifies callers by keyed digests. The key belongs to this process and is never stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, None] = OrderedDict()

    def of_bearer(self, scope: Scope) -> Caller:
        """Return the caller of an API or MCP request, by its token or else its address."""
        headers = dict(scope["headers"])
        _, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        return self._caller(scope, "bearer", bearer.strip())

    def of_session(self, scope: Scope) -> Caller:
        """Return the caller of a page request, by its session or else its address."""
        return self._caller(scope, "session", _session(dict(scope["headers"])))

    def _caller(self, scope: Scope, kind: str, credential: bytes) -> Caller:
        address = client_key((scope.get("client") or ("", 0))[0])
        if not credential:
            return Caller(f"address {address}", lambda: None)
        digest = hashlib.blake2b(credential, key=self._key, digest_size=16).hexdigest()
        name = f"{kind} {digest}"
        known = name in self._known
        return Caller(name if known else f"address {address}", lambda: self._remember(name))

    def _remember(self, name: str) -> None:
        # Called from threads. Each step is atomic, and the next request repeats a lost one.
        self._known[name] = None
        if len(self._known) > MAX_CREDENTIALS:
            self._known.popitem(last=False)


def accept_session(request: HttpRequest) -> None:
    """Report that the session of a request is signed in. Runs no query."""
    user = getattr(request, "_cached_user", None)  # set by AuthenticationMiddleware
    if user is not None and user.is_authenticated:
        request.META.get(ON_ACCEPTED_KEY, lambda: None)()


def _session(headers: Mapping[bytes, bytes]) -> bytes:
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return b""
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return b"" if morsel is None else morsel.value.encode()
