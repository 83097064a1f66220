"""Who sends a request, told apart for fair scheduling without looking a token up a second time.

A bearer or session counts as a caller of its own once it was accepted; until then, and when it is
made up, its request counts for the client address. So nobody gets more turns by inventing tokens.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from django.conf import settings
from django.http import HttpRequest

from evidence.api.authentication import ACCEPTED
from pdpp_site.connections import client_of
from pdpp_site.wsgi_bridge import Scope

REMEMBERED = 10_000
"""Accepted credentials. The one that was used longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class Caller:
    """``name`` is the key of a fair queue; ``accepted`` is called when the credential is good."""

    name: str
    accepted: Callable[[], None]


class Callers:
    """Tells callers apart. Its digests are keyed with a key of this process and never stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, None] = OrderedDict()

    def of_bearer(self, scope: Scope) -> Caller:
        """The token of a request to the API or to MCP, or else its address."""
        headers = dict(scope["headers"])
        _, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        return self._caller(scope, "bearer", bearer.strip())

    def of_session(self, scope: Scope) -> Caller:
        """The session of a request for a page, or else its address."""
        return self._caller(scope, "session", _session(dict(scope["headers"])))

    def _caller(self, scope: Scope, kind: str, credential: bytes) -> Caller:
        address = client_of((scope.get("client") or ("", 0))[0])
        if not credential:
            return Caller(f"address {address}", lambda: None)
        digest = hashlib.blake2b(credential, key=self._key, digest_size=16).hexdigest()
        name = f"{kind} {digest}"
        known = name in self._known
        return Caller(name if known else f"address {address}", lambda: self._remember(name))

    def _remember(self, name: str) -> None:
        # Called from threads; each step is atomic, and a lost one is made up by the next request.
        self._known[name] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def accept_session(request: HttpRequest) -> None:
    """Note that the session of an answered request is somebody's who is signed in; no query."""
    user = getattr(request, "_cached_user", None)  # as AuthenticationMiddleware keeps it
    if user is not None and user.is_authenticated:
        request.META.get(ACCEPTED, lambda: None)()


def _session(headers: Mapping[bytes, bytes]) -> bytes:
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return b""
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return b"" if morsel is None else morsel.value.encode()
