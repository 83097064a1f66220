"""The in-process form of the door: the REST views themselves, called without a socket.

The path is resolved with Django's own resolver and the request is built as any other, so that every
check, limit and record of a read exists once. The authority that the transport authenticated
stands on the request as an attribute, which nothing that comes over HTTP can set.
"""

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, TypeVar
from urllib.parse import unquote, urlencode

import orjson
from django.db import connections
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.urls import Resolver404, resolve
from rest_framework.response import Response

from mcp_adapter.rest import NO_HEADERS, Params, RestAnswer

Value = TypeVar("Value")


class InProcessRest:
    """`Rest` over the project's own URL configuration."""

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestAnswer:
        """Call the view that serves `path`; an unknown path answers 404."""
        request = _request("GET", path, headers)
        query = request.META["QUERY_STRING"] = urlencode(params)
        request.GET = QueryDict(query)
        return _called(request, authority)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestAnswer:
        """The same for a request that changes something."""
        content = b"" if body is None else orjson.dumps(dict(body))
        request = _request(method, path, NO_HEADERS)
        request.META.update(CONTENT_TYPE="application/json", CONTENT_LENGTH=str(len(content)))
        # Where Django's own handlers put the body of a request.
        request._stream = BytesIO(content)  # noqa: SLF001
        return _called(request, authority)


def _called(request: HttpRequest, authority: object) -> RestAnswer:
    # What the transport authenticated, where our authentication class looks for it.
    request.pdpp_scope = authority  # type: ignore[attr-defined]
    return releasing(lambda: _answer(request))


def releasing(work: Callable[[], Value]) -> Value:
    """Do database work outside Django's request cycle and give the connection back to the pool.

    A connection inside a transaction belongs to whoever began it (a test, say) and stays open.
    """
    try:
        return work()
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def _answer(request: HttpRequest) -> RestAnswer:
    try:
        match = resolve(request.path_info)
    except Resolver404:
        return RestAnswer(404, _unknown_path())
    response = match.func(request, *match.args, **match.kwargs)
    headers = {name.lower(): value for name, value in response.items()}
    return RestAnswer(response.status_code, _body(response), headers)


def _request(method: str, path: str, headers: Mapping[str, str]) -> HttpRequest:
    request = HttpRequest()
    request.method = method
    request.path = request.path_info = unquote(path)
    request.META.update(
        REQUEST_METHOD=method,
        PATH_INFO=request.path,
        QUERY_STRING="",
        SERVER_NAME="localhost",
        SERVER_PORT="80",
        HTTP_ACCEPT="application/json",
    )
    for name, value in headers.items():
        request.META[f"HTTP_{name.upper().replace('-', '_')}"] = value
    return request


def _body(response: HttpResponseBase) -> dict[str, Any] | bytes:
    if isinstance(response, Response):
        # Un-rendered: the renderer's work is the transport's, once.
        if response.data is None:
            return b""
        return response.data if isinstance(response.data, dict) else orjson.dumps(response.data)
    return b"".join(response)


def _unknown_path() -> dict[str, Any]:
    return {
        "error": {"type": "not_found_error", "code": "not_found", "message": "No such resource."}
    }
