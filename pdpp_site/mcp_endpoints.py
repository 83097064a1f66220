"""How the MCP endpoints are wired to this installation."""

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
from evidence.api.refusal_log import note_unlet
from evidence.errors import AuthenticationRequired, Refusal
from mcp_adapter.inprocess import InProcessRest, releasing
from mcp_adapter.rest import Refused
from mcp_adapter.server import Identity, Offload
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build, threads
from mcp_adapter.surfaces import EVENTS, READ, Surface
from operations import tracing


@dataclass(frozen=True, slots=True)
class Turns:
    """How a request waits for its turn, and what to call once its bearer is accepted."""

    place: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext
    accepted: Callable[[], None] = lambda: None


turns: ContextVar[Turns] = ContextVar("turns", default=Turns())  # noqa: B039 - it is frozen

RESOURCE = "/mcp"
EVENTS_RESOURCE = "/mcp/events"
METADATA = "/.well-known/oauth-protected-resource"


def endpoint(*, spans: tracing.Spans = tracing.NONE) -> McpEndpoint:
    """The endpoint over this process's own REST API; good for one run of its lifespan."""
    return _endpoint(RESOURCE, READ, spans=spans)


def events_endpoint(*, spans: tracing.Spans = tracing.NONE) -> McpEndpoint:
    """Likewise the advanced one, whose tools subscribe to events and read nothing."""
    return _endpoint(EVENTS_RESOURCE, EVENTS, spans=spans)


def _endpoint(resource: str, surface: Surface, *, spans: tracing.Spans) -> McpEndpoint:
    return build(
        InProcessRest(),
        functools.partial(authenticate, resource=resource),
        settings=TransportSettings(
            identity=identity(),
            surface=surface,
            spanned=spans.tool,
            offload=in_turn(threads(max(4, settings.PDPP_THREADS))),
            resource_metadata_url=f"{settings.PDPP_PUBLIC_URL}{METADATA}{resource}",
            allowed_hosts=tuple(settings.ALLOWED_HOSTS),
            allowed_origins=tuple(settings.CSRF_TRUSTED_ORIGINS),
        ),
    )


def in_turn(offload: Offload) -> Offload:
    """Let each piece of work wait for the turn of its caller before it takes a thread."""

    async def offload_in_turn(work: Callable[[], Any]) -> Any:
        async with turns.get().place():
            return await offload(work)

    return offload_in_turn


def identity() -> Identity:
    return Identity(public_url=settings.PDPP_PUBLIC_URL)


def authenticate(bearer: str | None, *, resource: str = RESOURCE) -> Scope:
    """The authority behind a bearer at an MCP endpoint; raises ``Refused``. One query, its connection
    returned."""
    try:
        if bearer is None:
            raise AuthenticationRequired
        scope = releasing(
            lambda: tokens.authenticate(bearer, resource=resource, now=timezone.now())
        )
    except (Refusal, Error) as error:
        refusal = error_responses.as_refusal(error)
        request_id = f"req_{secrets.token_hex(10)}"
        releasing(lambda: note_unlet(refusal, route="mcp", request_id=request_id))
        body = error_responses.body(refusal, request_id=request_id)
        raise Refused(error_responses.STATUS[refusal.code], body["error"]) from error
    turns.get().accepted()
    return scope
