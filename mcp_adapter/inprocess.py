"""Call the REST views in this process, without a socket.

Django's own resolver finds the view and the request is an ordinary one, so every check, limit and
disclosure is the same as over HTTP. The authority is an attribute of the request, which no HTTP
client can set.
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

from mcp_adapter.rest import NO_HEADERS, Params, RestResponse

Value = TypeVar("Value")


class InProcessRest:
    """`Rest` over the project's own URL configuration. An unknown path returns 404."""

    has_pages = True

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestResponse:
        """Return the response of the view that serves `path`."""
        request = _build_request("GET", path, headers)
        query = request.META["QUERY_STRING"] = urlencode(params)
        request.GET = QueryDict(query)
        return _call_view(request, authority)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestResponse:
        """Return the response to a request that writes, with a JSON body or none."""
        content = b"" if body is None else orjson.dumps(dict(body))
        request = _build_request(method, path, NO_HEADERS)
        request.META.update(CONTENT_TYPE="application/json", CONTENT_LENGTH=str(len(content)))
        # Django's own handlers store the body of a request in this attribute.
        request._stream = BytesIO(content)  # noqa: SLF001
        return _call_view(request, authority)


def run_and_release(work: Callable[[], Value]) -> Value:
    """Do database work outside Django's request cycle, then return connections to the pool.

    A connection inside a transaction belongs to the caller (a test, for example) and stays open.
    """
    try:
        return work()
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def _call_view(request: HttpRequest, authority: object) -> RestResponse:
    # The REST authentication class reads the authority from this attribute.
    request.pdpp_scope = authority  # type: ignore[attr-defined]
    return run_and_release(lambda: _respond(request))


def _respond(request: HttpRequest) -> RestResponse:
    try:
        match = resolve(request.path_info)
    except Resolver404:
        error = {"type": "not_found_error", "code": "not_found", "message": "No such resource."}
        return RestResponse(404, {"error": error})
    response = match.func(request, *match.args, **match.kwargs)
    headers = {name.lower(): value for name, value in response.items()}
    return RestResponse(response.status_code, _response_body(response), headers)


def _build_request(method: str, path: str, headers: Mapping[str, str]) -> HttpRequest:
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


def _response_body(response: HttpResponseBase) -> dict[str, Any] | bytes:
    if isinstance(response, Response):
        # Read unrendered data: the transport serializes it once.
        if response.data is None:
            return b""
        return response.data if isinstance(response.data, dict) else orjson.dumps(response.data)
    return b"".join(response)
