"""Prometheus metrics of this process; labels have fixed values only.

Each process reports only itself, so scrape every process behind a proxy.
"""

import hmac
import ipaddress
from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from django.http.request import split_domain_port
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import Scope
from typing_extensions import override

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
)
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

REQUEST_COUNT = Counter("pdpp_http_requests", "Requests served", ("method", "route", "status"))
REQUEST_SECONDS = Histogram(
    "pdpp_http_request_seconds",
    "Time from request start to response end",
    ("route",),
    buckets=BUCKETS,
)
REQUESTS_RUNNING = Gauge("pdpp_http_requests_running", "Requests in progress")
BACKGROUND_RUNS = Counter("pdpp_background_runs", "Runs of background jobs", ("job", "outcome"))
BACKGROUND_SUCCESS = Gauge(
    "pdpp_background_success_seconds", "Unix time of a job's last success", ("job",)
)

POOL_METRICS = {
    "pool_size": "Open database connections",
    "pool_available": "Idle database connections",
    "pool_max": "Maximum number of database connections",
    "requests_waiting": "Requests waiting for a connection",
    "requests_errors": "Requests that got no connection in time",
}


class PoolCollector(Collector):
    """Metrics of the database connection pool, if there is one."""

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        if "pool" not in settings.DATABASES["default"].get("OPTIONS", {}):
            return
        stats = connection.pool.get_stats()  # type: ignore[attr-defined] # PostgreSQL's alone has one
        for name, description in POOL_METRICS.items():
            yield GaugeMetricFamily(f"pdpp_database_{name}", description, value=stats.get(name, 0))


REGISTRY.register(PoolCollector())


def known_method(method: str) -> str:
    """Return a standard method, or "other"."""
    return method if method in METHODS else "other"


def record_request(*, method: str, route: str, status: int, seconds: float) -> None:
    """Count one request; status 0 means that it got no response."""
    kind = f"{status // 100}xx" if status else "none"
    REQUEST_COUNT.labels(known_method(method), route, kind).inc()
    REQUEST_SECONDS.labels(route).observe(seconds)


def render() -> tuple[bytes, str]:
    """Return the metrics as text, and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


def may_scrape(scope: Scope) -> bool:
    """Allow requests with ``PDPP_METRICS_TOKEN``; without a token, only local requests.

    A request through a local proxy may come from anywhere, so it does not count as local.
    """
    headers = dict(scope["headers"])
    if settings.PDPP_METRICS_TOKEN:
        expected = f"Bearer {settings.PDPP_METRICS_TOKEN}".encode()
        return hmac.compare_digest(headers.get(b"authorization", b""), expected)
    host, _ = split_domain_port(headers.get(b"host", b"").decode("latin-1"))
    return _is_loopback(scope) and host in LOOPBACK and not PROXY_HEADERS & headers.keys()


def _is_loopback(scope: Scope) -> bool:
    address, _ = scope.get("client") or ("", 0)
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
