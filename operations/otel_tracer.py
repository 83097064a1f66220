"""Create OpenTelemetry spans whose attributes have fixed values only.

Spans are created by hand, because instrumentation libraries record addresses and errors. The ids of
``traceparent`` are passed on; ``tracestate`` and ``baggage`` are not. The provider is private: the
MCP library would add spans with tool names from the client to a global one.
"""

import contextlib
import threading
from collections.abc import Iterator
from functools import partial

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcp_adapter.metrics import Outcome
from operations import metrics
from operations.tracer import Headers, ResponseRecorder

CLOSE_SECONDS = 5.0


class OtelTracer:
    """Exports spans in batches on a separate thread; drops the oldest if the exporter is too slow."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        resource = Resource.create({SERVICE_NAME: "pdpp"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("pdpp")

    @contextlib.contextmanager
    def request(self, headers: Headers) -> Iterator[ResponseRecorder]:
        # The route name is set at the end.
        span = self._tracer.start_span(
            "request", context=_caller_context(headers), kind=SpanKind.SERVER
        )
        with use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            yield partial(_record_response, span)

    @contextlib.contextmanager
    def tool(self, name: str, outcome: Outcome) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"tools/call {name}",
            context=_request_context(),
            kind=SpanKind.SERVER,
            attributes={"gen_ai.tool.name": name},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield
            span.set_attribute("pdpp.outcome", outcome.label)
            if outcome.label == "failed":
                span.set_status(StatusCode.ERROR)

    def close(self) -> None:
        thread = threading.Thread(target=self._provider.shutdown, daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            # The processor retries an unreachable collector until the exporter is shut down.
            self._exporter.shutdown()
            thread.join(CLOSE_SECONDS)


def connect_tracer(collector: str) -> OtelTracer:
    """Return a tracer that exports to the collector at this URL."""
    return OtelTracer(OTLPSpanExporter(endpoint=f"{collector.rstrip('/')}/v1/traces"))


def _caller_context(headers: Headers) -> Context:
    """Return the trace context of the caller; several ``traceparent`` headers are ignored."""
    values = [value.decode("latin-1") for name, value in headers if name == b"traceparent"]
    carrier = {"traceparent": values[0]} if len(values) == 1 else {}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _request_context() -> Context:
    """Return the context of the current request, or of the call's ``_meta``, without tracestate."""
    current = get_current_span().get_span_context()
    context = SpanContext(current.trace_id, current.span_id, current.is_remote, current.trace_flags)
    return set_span_in_context(NonRecordingSpan(context), Context())


def _record_response(span: Span, *, method: str, route: str, status: int) -> None:
    method_name = metrics.known_method(method)
    span.update_name(f"{method_name} {route}")
    span.set_attributes({"http.request.method": method_name, "http.route": route})
    if status:
        span.set_attribute("http.response.status_code", status)
    if status == 0 or status >= 500:
        span.set_status(StatusCode.ERROR)
