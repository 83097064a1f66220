"""Spans of OpenTelemetry, made by hand: libraries that make them write down addresses and errors.

Nothing in a span has a value that anybody chose: methods, routes and tools go by the names that the
log and the metrics use. Of an incoming ``traceparent`` the two ids go on; what a client may have
put into ``tracestate`` or ``baggage`` does not. The provider is ours alone and never the process's: the
MCP library would make spans of its own there, with whatever an agent calls a tool.
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
from operations.tracing import Answered, Headers

CLOSE_SECONDS = 5.0


class Told:
    """Spans in batches, to an exporter that runs in a thread of its own. When it falls behind, the
    oldest are dropped."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        resource = Resource.create({SERVICE_NAME: "pdpp"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("pdpp")

    @contextlib.contextmanager
    def request(self, headers: Headers) -> Iterator[Answered]:
        # The name is known at the end, when nothing can fail for the sake of it.
        span = self._tracer.start_span("request", context=_begun(headers), kind=SpanKind.SERVER)
        with use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            yield partial(_answered, span)

    @contextlib.contextmanager
    def tool(self, name: str, outcome: Outcome) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"tools/call {name}",
            context=_here(),
            kind=SpanKind.SERVER,
            attributes={"gen_ai.tool.name": name},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield
            span.set_attribute("pdpp.outcome", outcome.word)
            if outcome.word == "failed":
                span.set_status(StatusCode.ERROR)

    def close(self) -> None:
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        if ending.is_alive():
            # A collector that does not answer is tried again and again; this ends it.
            self._exporter.shutdown()
            ending.join(CLOSE_SECONDS)


def told_to(collector: str) -> Told:
    """Those that go to the collector at this address."""
    return Told(OTLPSpanExporter(endpoint=f"{collector.rstrip('/')}/v1/traces"))


def _begun(headers: Headers) -> Context:
    """The trace that the caller is in. More than one are none."""
    given = [value.decode("latin-1") for name, value in headers if name == b"traceparent"]
    carrier = {"traceparent": given[0]} if len(given) == 1 else {}
    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _here() -> Context:
    """Where the call of a tool stands: in its request, or where its ``_meta`` says."""
    here = get_current_span().get_span_context()
    bare = SpanContext(here.trace_id, here.span_id, here.is_remote, here.trace_flags)
    return set_span_in_context(NonRecordingSpan(bare), Context())


def _answered(span: Span, *, method: str, route: str, status: int) -> None:
    verb = metrics.named(method)
    span.update_name(f"{verb} {route}")
    span.set_attributes({"http.request.method": verb, "http.route": route})
    if status:
        span.set_attribute("http.response.status_code", status)
    if status == 0 or status >= 500:
        span.set_status(StatusCode.ERROR)
