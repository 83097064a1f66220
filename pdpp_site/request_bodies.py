"""Read request bodies within the size limit of their route and at a minimum rate; reject what Django cannot read.

The limit is 64 KiB. A few routes accept more, after checking the credential before the body is read.

PostgreSQL cannot store NUL characters, and Python cannot decode forms in an unknown charset. Views
that parse their own body (`csrf_exempt`) check it themselves.
"""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.urls import Resolver404, resolve
from django_otp.middleware import OTPMiddleware
from rest_framework.request import Request

from evidence import limits
from evidence.access.scope import TokenKind
from evidence.api import error_responses
from evidence.api.authentication import BearerAuthentication
from evidence.api.error_responses import record_rejected_token
from evidence.api.views.collectors import MAX_STATE_BYTES
from evidence.api.views.connectors import MAX_DECLARATION_BYTES
from evidence.errors import (
    ApiException,
    Code,
    InvalidRequest,
    NotFound,
    ResourceLimit,
    WrongTokenKind,
)
from mcp_adapter.inprocess import run_and_release
from owner.permissions import is_owner
from pdpp_site import views
from pdpp_site.wsgi_bridge import (
    DisconnectedError,
    Message,
    Receive,
    RequestBody,
    Scope,
    build_environ,
)

NUL = "\x00"
API = "/v1/"
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
Response = Callable[[HttpRequest], HttpResponseBase]


def answer_api(get_response: Response) -> Response:
    """Answer requests of the API without the middleware of pages, which does nothing for them."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API):
            return get_response(request)
        try:
            match = resolve(request.path_info)
        except Resolver404:
            return get_response(request)
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        return response.render() if hasattr(response, "render") else response

    return answer


class RequestTextMiddleware:
    """Checks charset, path and query of every request, and posted forms."""

    def __init__(self, get_response: Response) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if charset.lower() not in CHARSETS:
            message = f"charset takes utf-8; got {charset[:64]!r}."
            return views.error_response(request, InvalidRequest(message=message, param="charset"))
        # Views of the API answer as they do for any other unknown id.
        if NUL in request.path_info and not request.path_info.startswith(API):
            return views.error_response(request, NotFound(message="No page at this address."))
        if "%00" in request.META.get("QUERY_STRING", ""):
            return self._nul_error(request, request.GET) or self._get_response(request)
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: object
    ) -> HttpResponseBase | None:
        """Check a posted form, after Django's CSRF check has read it."""
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        try:
            return self._nul_error(request, request.POST)
        except (MultiPartParserError, RequestDataTooBig, SuspiciousOperation, UnreadablePostError):
            return None  # the view reads the form again, and Django renders the error

    def _nul_error(self, request: HttpRequest, data: QueryDict) -> HttpResponseBase | None:
        for name, values in data.lists():
            if NUL in name or any(NUL in value for value in values):
                clean_name = name.replace(NUL, "")[:64]
                message = f"{clean_name} contains a NUL character; remove it."
                return views.error_response(
                    request, InvalidRequest(message=message, param=clean_name)
                )
        return None


class SignInRequired(ApiException):
    """Sign in, then send the request again."""

    code = Code.PERMISSION_ERROR


def refuse_without_owner_token(scope: Scope) -> ApiException | None:
    """Return an error unless the request has an owner token. Runs in a thread."""
    return _refusal(scope, {TokenKind.OWNER})


def refuse_without_writing_token(scope: Scope) -> ApiException | None:
    """Return an error unless the request has a token of an owner or a collector. Runs in a thread."""
    return _refusal(scope, {TokenKind.OWNER, TokenKind.COLLECTOR})


def _refusal(scope: Scope, kinds: Collection[TokenKind]) -> ApiException | None:
    try:
        _, caller = run_and_release(lambda: BearerAuthentication().authenticate(_request(scope)))
    except (ApiException, Error) as error:
        api_error = error_responses.to_api_exception(error)
        request_id = f"req_{secrets.token_hex(10)}"
        run_and_release(
            lambda: record_rejected_token(api_error, route="rest", request_id=request_id)
        )
        return api_error
    if caller.kind not in kinds:
        return WrongTokenKind(message="This route requires an owner token.")
    return None


def refuse_without_owner_session(scope: Scope) -> ApiException | None:
    """Return an error unless the request has the owner's session. Runs in a thread."""
    try:
        response = run_and_release(lambda: _session_status(_request(scope)._request))  # noqa: SLF001 - DRF's own name
    except Error as error:
        return error_responses.to_api_exception(error)
    return None if getattr(response, "status_code", None) == 204 else SignInRequired()


def _request(scope: Scope) -> Request:
    return Request(WSGIRequest(build_environ(scope, body=RequestBody(BytesIO(), 0))))


def _status(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204 if is_owner(request.user) else 403)


# The same middleware in the same order as in settings.
_session_status = SessionMiddleware(AuthenticationMiddleware(OTPMiddleware(_status)))


DEFAULT_BYTES = 64 * 1024
MCP_BYTES = 1024 * 1024
OWNER_FORM_BYTES = 2 * 1024 * 1024
"""The grant form has a checkbox per field: 10,000, Django's limit here, are about 400 KB."""
IN_MEMORY_BYTES = 1024 * 1024
MAX_LARGE_BODIES = 8
"""Bodies over DEFAULT_BYTES read at the same time, each up to INGEST_MAX_BYTES of disk."""

GRACE_SECONDS = 10.0
MIN_BYTES_PER_SECOND = 4096
"""A body must keep this average rate, after GRACE_SECONDS."""
MAX_PAUSE_SECONDS = 30.0

DISCARD_SECONDS = 10.0
DISCARD_PAUSE_SECONDS = 2.0
"""The rest of a refused body is read for at most this long, and while it pauses no longer."""

Check = Callable[[Scope], ApiException | None]


@dataclass(frozen=True, slots=True)
class LargeRoute:
    """A path prefix that accepts up to `max_bytes` from a caller that `check` accepts."""

    prefix: str
    max_bytes: int
    check: Check


# The first matching prefix applies.
LARGE_ROUTES = (
    LargeRoute("/v1/ingest/", limits.INGEST_MAX_BYTES, refuse_without_writing_token),
    LargeRoute("/v1/blobs", limits.BLOB_MAX_BYTES, refuse_without_writing_token),
    LargeRoute("/v1/state/", MAX_STATE_BYTES, refuse_without_writing_token),
    LargeRoute("/v1/connectors", MAX_DECLARATION_BYTES, refuse_without_owner_token),
    LargeRoute("/connectors", MAX_DECLARATION_BYTES, refuse_without_owner_token),
    LargeRoute("/imports", limits.INGEST_MAX_BYTES, refuse_without_owner_session),
    LargeRoute("/connections/", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/grants/", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/connected/", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/oauth/authorize", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/authorize", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/device", OWNER_FORM_BYTES, refuse_without_owner_session),
)


class RequestBodies:
    """Reads the bodies of the requests that Django answers."""

    def __init__(self, routes: Sequence[LargeRoute] = LARGE_ROUTES) -> None:
        self._routes = routes
        self._large = asyncio.Semaphore(MAX_LARGE_BODIES)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="credentials")

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[RequestBody]:
        """Yield the complete body.

        Raises ResourceLimit over the limit of the route, InvalidRequest below the minimum rate,
        DisconnectedError, and the error of the route's credential check.
        """
        route = (
            self._large_route(scope["path"]) if announces_more_than(scope, DEFAULT_BYTES) else None
        )
        if route is None:
            with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
                yield await _read(scope, receive, into=file, limit=DEFAULT_BYTES)
            return
        if announces_more_than(scope, route.max_bytes, unknown_length=False):
            await _discard(scope, receive)
            raise _too_large(route.max_bytes)
        error = await self._error(route.check, scope)
        if error is not None:
            await _discard(scope, receive)
            raise error
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
            async with self._large:
                body = await _read(scope, receive, into=file, limit=route.max_bytes)
            yield body

    def _large_route(self, path: str) -> LargeRoute | None:
        return next((route for route in self._routes if path.startswith(route.prefix)), None)

    async def _error(self, check: Check, scope: Scope) -> ApiException | None:
        return await asyncio.get_running_loop().run_in_executor(self._threads, check, scope)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def announces_more_than(scope: Scope, limit: int, *, unknown_length: bool = True) -> bool:
    """Return whether the headers announce a body over `limit`, or (by default) of unknown length."""
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"")
    if declared.isdigit():
        return int(declared) > limit
    return unknown_length and b"transfer-encoding" in headers


def limited_receive(scope: Scope, receive: Receive, *, limit: int) -> Receive:
    """Return a `receive` that enforces `limit` and the minimum rate until the body is complete.

    It raises ResourceLimit, InvalidRequest, or DisconnectedError in the middle of the body.
    """
    clock = asyncio.get_running_loop().time
    length, seconds_left, complete = 0, GRACE_SECONDS, False

    async def receive_in_time() -> Message:
        nonlocal length, seconds_left, complete
        if complete:
            return await receive()
        if announces_more_than(scope, limit, unknown_length=False):
            await _discard(scope, receive)
            raise _too_large(limit)
        began = clock()
        try:
            message = await asyncio.wait_for(receive(), max(seconds_left, 0))
        except TimeoutError:
            raise InvalidRequest(message="The request body did not arrive in time.") from None
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        size = len(message.get("body", b""))
        length += size
        complete = not message.get("more_body", False)
        if length > limit:
            if not complete:
                await _discard(scope, receive)
            raise _too_large(limit)
        gained = size / MIN_BYTES_PER_SECOND - (clock() - began)
        seconds_left = min(seconds_left + gained, MAX_PAUSE_SECONDS)
        return message

    return receive_in_time


async def _read(scope: Scope, receive: Receive, *, into: IO[bytes], limit: int) -> RequestBody:
    receive_in_time = limited_receive(scope, receive, limit=limit)
    more = True
    while more:
        message = await receive_in_time()
        into.write(message.get("body", b""))
        more = message.get("more_body", False)
    return RequestBody(into, into.tell())


async def _discard(scope: Scope, receive: Receive) -> None:
    """Read the rest of a body that is refused, while it keeps coming, so that its sender reads the response.

    Go's HTTP client, and with it Caddy, ends the connection when it is answered while it sends: with
    Caddy 2.6, 13 of 400 refused forms of 65 KiB got half a response.
    """
    if b"expect" in dict(scope["headers"]):
        return  # such a client sends nothing before it is told to
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while True:
                message = await asyncio.wait_for(receive(), DISCARD_PAUSE_SECONDS)
                if not message.get("more_body", False):
                    return


def _too_large(limit: int) -> ResourceLimit:
    return ResourceLimit(message=f"The request body takes at most {limit} bytes.")
