"""Connect the MCP endpoints to the in-process REST API and its tokens."""

import contextlib
import functools
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error
from django.utils import timezone

from evidence.access import tokens
from evidence.access.scope import Scope
from evidence.api import error_responses
from evidence.api.authentication import METADATA_PATH, public_url
from evidence.api.error_responses import record_rejected_token
from evidence.errors import ApiException, AuthenticationRequired, GrantPaused
from mcp_adapter.inprocess import InProcessRest, run_and_release
from mcp_adapter.rest import TokenRejected
from mcp_adapter.server import Offload, ServerInfo
from mcp_adapter.streamable_http import (
    McpEndpoint,
    TransportSettings,
    build_endpoint,
    thread_offload,
)
from mcp_adapter.surfaces import EVENT_SURFACE, READ_SURFACE, Surface


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a request in the fair queue, and the callback for an accepted token."""

    place: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext
    accepted: Callable[[], None] = lambda: None


queue_place: ContextVar[QueuePlace] = ContextVar("turns", default=QueuePlace())  # noqa: B039 - it is frozen

RESOURCE = "/mcp"
EVENTS_RESOURCE = "/mcp/events"


def endpoint() -> McpEndpoint:
    """Return the `/mcp` endpoint. Its lifespan runs only once."""
    return _endpoint(RESOURCE, READ_SURFACE)


def events_endpoint() -> McpEndpoint:
    """Return the `/mcp/events` endpoint, whose tools manage event subscriptions and read no records."""
    return _endpoint(EVENTS_RESOURCE, EVENT_SURFACE)


def _endpoint(resource: str, surface: Surface) -> McpEndpoint:
    return build_endpoint(
        InProcessRest(),
        functools.partial(authenticate, resource=resource),
        settings=TransportSettings(
            server_info=server_info(),
            surface=surface,
            offload=queued(thread_offload(max(4, settings.PDPP_THREADS))),
            resource_metadata_url=lambda host: f"{public_url(host)}{METADATA_PATH}{resource}",
            allowed_hosts=tuple(settings.ALLOWED_HOSTS),
            allowed_origins=tuple(settings.CSRF_TRUSTED_ORIGINS),
            browser_origins=frozenset(settings.PDPP_BROWSER_ORIGINS),
        ),
    )


def queued(offload: Offload) -> Offload:
    """Return an `offload` that waits for a place in the fair queue before it takes a thread."""

    async def offload_queued(work: Callable[[], Any]) -> Any:
        async with queue_place.get().place():
            return await offload(work)

    return offload_queued


def server_info() -> ServerInfo:
    return ServerInfo(public_url=settings.PDPP_PUBLIC_URL)


def authenticate(bearer: str | None, *, resource: str = RESOURCE) -> Scope:
    """Return the scope of a bearer token at an MCP endpoint. Raises TokenRejected.

    Runs one query and releases its connection.
    """
    try:
        if bearer is None:
            raise AuthenticationRequired
        scope = run_and_release(
            lambda: tokens.authenticate(bearer, resource=resource, now=timezone.now())
        )
    except (ApiException, Error) as error:
        api_error = error_responses.to_api_exception(error)
        request_id = f"req_{secrets.token_hex(10)}"
        record = functools.partial(
            run_and_release,
            lambda: record_rejected_token(api_error, route="mcp", request_id=request_id),
        )
        if not isinstance(api_error, GrantPaused):
            record()
        body = error_responses.error_body(api_error, request_id=request_id)
        status = error_responses.STATUS[api_error.code]
        raise TokenRejected(status, body["error"], record=record) from error
    queue_place.get().accepted()
    return scope
