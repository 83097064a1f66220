"""Spans of requests and tools, without client data."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import CommandError, call_command
from django.db import connections

from operations import tracer
from operations.tracer import NULL_TRACER
from pdpp_site import mcp_endpoints
from pdpp_site.asgi_app import AsgiApp
from tests.operations.collecting import collecting
from tests.pdpp_site.living import MCP_HEADERS
from tests.pdpp_site.test_site import django as answering
from tests.pdpp_site.web import Web, free_port, served
from tests.tools import needs_extra
from tests.world import World

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

otel_tracer = pytest.importorskip("operations.otel_tracer", reason=needs_extra("telemetry"))
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
MARK = "kept-mark"


def django(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Close database connections of server threads."""
    try:
        return [b"".join(WSGIHandler()(environ, start_response))]
    finally:
        connections.close_all()


@contextlib.contextmanager
def traced(exporter: "SpanExporter", application: Any = django) -> Iterator[Web]:
    told = otel_tracer.OtelTracer(exporter)
    site = AsgiApp(application=application, endpoint=mcp_endpoints.endpoint(spans=told), spans=told)
    with served(site) as web:
        yield web


def called(web: Web, bearer: str, tool: str, *, meta: Any = None, **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    body = {"jsonrpc": "2.0", "id": MARK, "method": "tools/call", "params": params}
    headers = MCP_HEADERS | {
        "Authorization": f"Bearer {bearer}", "Content-Type": "application/json",
        "traceparent": PARENT,
    }  # fmt: skip
    with contextlib.closing(web.connect()) as connection:
        connection.request("POST", "/mcp", json.dumps(body), headers)
        return json.loads(connection.getresponse().read())


def by_name(exporter: "InMemorySpanExporter") -> "dict[str, ReadableSpan]":
    """Return received spans by name, after the server has stopped."""
    return {span.name: span for span in exporter.get_finished_spans()}


def test_request_span_has_route_method_and_status() -> None:
    exporter = memory.InMemorySpanExporter()

    with traced(exporter, answering) as web:
        web.get(f"/v1/streams/{MARK}/records/{MARK}?q={MARK}")
        web.get("/healthz")
        web.get(f"/{MARK}", method="PROPFIND")

    found = by_name(exporter)
    record = found["GET /v1/streams/{stream}/records/{record_id}"]
    assert dict(record.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/v1/streams/{stream}/records/{record_id}",
        "http.response.status_code": 200,
    }
    assert record.parent is None
    assert found.keys() == {record.name, "GET /healthz", "other /…"}


@pytest.mark.django_db(transaction=True)
def test_tool_span_is_a_child_of_its_request() -> None:
    bearer = World.build().tokens["dora@mcp"]
    exporter = memory.InMemorySpanExporter()

    with traced(exporter) as web:
        assert not called(web, bearer, "search", q=MARK)["result"]["isError"]
        assert called(web, bearer, "fetch", id=MARK)["result"]["isError"]
        assert "error" in called(web, bearer, MARK)

    found = by_name(exporter)
    assert found.keys() == {
        "POST /mcp", "tools/call search", "tools/call fetch", "tools/call unknown"
    }  # fmt: skip
    outcomes = {name: (span.attributes or {}).get("pdpp.outcome") for name, span in found.items()}
    assert outcomes["tools/call search"] == "succeeded"
    assert outcomes["tools/call fetch"] == outcomes["tools/call unknown"] == "refused"
    requests = {
        each.context.span_id for each in exporter.get_finished_spans() if each.name == "POST /mcp"
    }
    parents = {
        span.parent.span_id for name, span in found.items() if "tools" in name and span.parent
    }
    assert parents == requests
    assert len(parents) == 3


@pytest.mark.django_db(transaction=True)
def test_trace_ids_are_continued_without_client_values() -> None:
    bearer = World.build().tokens["dora@mcp"]
    exporter = memory.InMemorySpanExporter()
    told_by_agent = {
        "traceparent": f"00-{TRACE[::-1]}-{SPAN}-01",
        "tracestate": f"v={MARK}",
        "baggage": f"v={MARK}",
    }

    with traced(exporter) as web:
        web.get(
            f"/v1/search?q={MARK}",
            traceparent=PARENT, tracestate=f"v={MARK}", baggage=f"v={MARK}", Cookie=f"a={MARK}",
        )  # fmt: skip
        web.get("/readyz", traceparent=MARK)
        called(web, bearer, "search", q=MARK, meta=told_by_agent)

    found = by_name(exporter)
    search, tool = found["GET /v1/search"], found["tools/call search"]
    assert f"{search.context.trace_id:032x}" == TRACE
    assert search.parent is not None
    assert f"{search.parent.span_id:016x}" == SPAN
    assert f"{tool.context.trace_id:032x}" == TRACE[::-1]
    assert found["GET /readyz"].parent is None
    for span in exporter.get_finished_spans():
        assert MARK not in span.to_json()
        assert not span.context.trace_state
        assert not span.events


def test_failure_is_marked_without_its_message() -> None:
    def failing(environ: Any, start_response: Any) -> Any:
        raise RuntimeError(MARK)

    exporter = memory.InMemorySpanExporter()
    told = otel_tracer.OtelTracer(exporter)
    with served(AsgiApp(application=failing, endpoint=mcp_endpoints.endpoint(), spans=told)) as web:
        assert web.get("/v1/schema").status == 500

    [span] = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert MARK not in span.to_json()


def test_unreachable_collector_does_not_affect_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_tracer, "CLOSE_SECONDS", 0.2)
    nowhere = otel_tracer.OTLPSpanExporter(endpoint=f"http://127.0.0.1:{free_port()}/v1/traces")
    told = otel_tracer.OtelTracer(nowhere)

    with served(
        AsgiApp(application=answering, endpoint=mcp_endpoints.endpoint(), spans=told)
    ) as web:
        assert web.get("/healthz").status == 200
        flushing = threading.Thread(target=told._provider.force_flush)
        flushing.start()
        assert [web.get("/healthz").status for _ in range(5)] == [200] * 5
    flushing.join(60)

    assert not flushing.is_alive()


def test_spans_are_sent_to_the_collector(settings: Any) -> None:
    with collecting() as collected:
        settings.PDPP_TELEMETRY = f"{collected.address}/"
        told = tracer.create_tracer()
        with served(
            AsgiApp(application=answering, endpoint=mcp_endpoints.endpoint(), spans=told)
        ) as web:
            web.get(f"/v1/search?q={MARK}")

    assert collected.paths == {"/v1/traces"}
    assert b"GET /v1/search" in collected.told
    assert MARK.encode() not in collected.told


def test_no_spans_without_the_setting(settings: Any) -> None:
    settings.PDPP_TELEMETRY = ""

    assert tracer.create_tracer() is NULL_TRACER


@pytest.mark.parametrize(
    ("address", "missing", "said"),
    [
        ("http://127.0.0.1:4318", True, "make telemetry"),
        ("yes", False, "URL of a collector"),
        ("grpc://127.0.0.1:4317", False, "URL of a collector"),
    ],
)
def test_invalid_setting_is_reported_at_startup(
    settings: Any, monkeypatch: pytest.MonkeyPatch, address: str, missing: bool, said: str
) -> None:
    settings.PDPP_TELEMETRY = address
    if missing:
        monkeypatch.delitem(sys.modules, "operations.otel_tracer")
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(ImproperlyConfigured, match=said):
        tracer.create_tracer()
    with pytest.raises(CommandError, match=said):
        call_command("run")
