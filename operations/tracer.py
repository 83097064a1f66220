"""Tracing interface, and the tracer that PDPP_TELEMETRY configures: OpenTelemetry, or none."""

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

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
OTEL_TRACER = "operations.otel_tracer.connect_tracer"
"""Loaded only if tracing is configured, because its packages are an extra."""


def check_settings() -> None:
    """Raise ``ImproperlyConfigured`` if PDPP_TELEMETRY is set but cannot work."""
    if not settings.PDPP_TELEMETRY:
        return
    collector = urlsplit(settings.PDPP_TELEMETRY)
    if collector.scheme not in {"http", "https"} or not collector.hostname:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY takes the URL of a collector, such as http://127.0.0.1:4318."
        )
    try:
        import_string(OTEL_TRACER)
    except ModuleNotFoundError as error:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY needs packages that are not installed. Run: make telemetry"
        ) from error


def create_tracer() -> Tracer:
    """Return the tracer of this process. Raises ``ImproperlyConfigured``."""
    check_settings()
    if not settings.PDPP_TELEMETRY:
        return NULL_TRACER
    tracer: Tracer = import_string(OTEL_TRACER)(settings.PDPP_TELEMETRY)
    return tracer
