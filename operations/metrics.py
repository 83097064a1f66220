"""``/metrics`` for Prometheus: how much goes on in this process, and how long it takes.

No label has a value that anybody chose: routes go by their names, methods and tools by a fixed list. Each
process tells of itself alone, so behind a proxy each has to be asked.
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
FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

REQUESTS = Counter("pdpp_http_requests", "Requests answered", ("method", "route", "status"))
SECONDS = Histogram("pdpp_http_request_seconds", "From head to end", ("route",), buckets=BUCKETS)
RUNNING = Gauge("pdpp_http_requests_running", "Requests that are being answered")
BACKGROUND = Counter("pdpp_background_runs", "Rounds of background work", ("job", "outcome"))
SUCCEEDED = Gauge(
    "pdpp_background_success_seconds", "When a job last got through, Unix time", ("job",)
)

POOL = {
    "pool_size": "Connections to the database that are open",
    "pool_available": "Of them, those that nobody uses",
    "pool_max": "The most there may be",
    "requests_waiting": "Requests that wait for a connection now",
    "requests_errors": "Requests that got none in time, so far",
}


class Pool(Collector):
    """The pool of connections to the database, where there is one."""

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        if "pool" not in settings.DATABASES["default"].get("OPTIONS", {}):
            return
        stats = connection.pool.get_stats()  # type: ignore[attr-defined] # PostgreSQL's alone has one
        for name, meaning in POOL.items():
            yield GaugeMetricFamily(f"pdpp_database_{name}", meaning, value=stats.get(name, 0))


REGISTRY.register(Pool())


def named(method: str) -> str:
    """The method itself where it is one of few, whatever a stranger types."""
    return method if method in METHODS else "other"


def note(*, method: str, route: str, status: int, seconds: float) -> None:
    """One request that was answered; status 0 is one that was not."""
    kind = f"{status // 100}xx" if status else "none"
    REQUESTS.labels(named(method), route, kind).inc()
    SECONDS.labels(route).observe(seconds)


def written() -> tuple[bytes, str]:
    """The text of all of them, and its type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


def may_ask(scope: Scope) -> bool:
    """Whoever holds ``PDPP_METRICS_TOKEN``; without one, programs on this machine.

    A proxy here passes on what comes from elsewhere, so nothing that went through one counts.
    """
    headers = dict(scope["headers"])
    if settings.PDPP_METRICS_TOKEN:
        expected = f"Bearer {settings.PDPP_METRICS_TOKEN}".encode()
        return hmac.compare_digest(headers.get(b"authorization", b""), expected)
    host, _ = split_domain_port(headers.get(b"host", b"").decode("latin-1"))
    return _is_loopback(scope) and host in LOOPBACK and not FORWARDED & headers.keys()


def _is_loopback(scope: Scope) -> bool:
    address, _ = scope.get("client") or ("", 0)
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
