"""Tracing interface, with a tracer that does nothing."""

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from mcp_adapter.metrics import Outcome, no_span

Headers = Iterable[tuple[bytes, bytes]]


class ResponseRecorder(Protocol):
    """Records how a request ended; status 0 means that it got no response."""

    def __call__(self, *, method: str, route: str, status: int) -> None: ...


class Tracer(Protocol):
    """Creates spans for the site and the MCP endpoints."""

    def request(self, headers: Headers) -> AbstractContextManager[ResponseRecorder]:
        """Trace one request, until the end of its response."""

    def tool(self, name: str, outcome: Outcome) -> AbstractContextManager[None]:
        """Trace one tool call, whose outcome is known at its end."""

    def close(self) -> None:
        """Export pending spans. Blocks for a few seconds at most."""


class NullTracer:
    """Creates no spans."""

    def request(self, headers: Headers) -> AbstractContextManager[ResponseRecorder]:
        return contextlib.nullcontext(_ignore_response)

    def tool(self, name: str, outcome: Outcome) -> AbstractContextManager[None]:
        return no_span(name, outcome)

    def close(self) -> None:
        pass


def _ignore_response(*, method: str, route: str, status: int) -> None:
    pass


NULL_TRACER = NullTracer()
