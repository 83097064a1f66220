"""Metrics are served to local programs and contain no personal data."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from evidence.ledger.writer import LEDGER_ROWS
from operations import background_jobs, metrics
from tests.pdpp_site.test_site import site
from tests.pdpp_site.web import served
from tests.world import World

Django = Callable[..., Any]


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def requests(**labels: str) -> float:
    return value("pdpp_http_requests_total", **labels)


def test_requests_are_counted_by_route_and_timed() -> None:
    labels = {"method": "GET", "route": "/v1/streams/{stream}/records", "status": "2xx"}
    before = requests(**labels)

    with served(site()) as web:
        for stream in ("one", "two"):
            web.get(f"/v1/streams/{stream}/records?q=secret")
        # A client may have its answer before the server has counted the request as done.
        for _ in range(1_000):
            text = web.get("/metrics").content.decode()
            if "pdpp_http_requests_running 1.0" in text:
                break

    assert requests(**labels) == before + 2
    assert "secret" not in text
    assert 'pdpp_http_request_seconds_bucket{le="0.1",route="/v1/streams/{stream}/records"}' in text
    assert "pdpp_http_requests_running 1.0" in text
    assert "process_resident_memory_bytes" in text


def test_labels_contain_no_client_values() -> None:
    with served(site()) as web:
        web.get("/one-of-many-names")
        web.get("/v1/streams/one-of-many-names/records/one-of-many-names")
        web.get("/", method="PROPFIND")
        text = web.get("/metrics").content.decode()

    assert "one-of-many" not in text
    assert "PROPFIND" not in text
    assert requests(method="other", route="/", status="2xx") > 0


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"Via": "1.1 proxy"},
        {"X-Real-IP": "203.0.113.9"},
        {"Host": "pdpp.example"},
    ],
)
def test_proxied_request_gets_no_metrics(settings: Any, headers: dict[str, str]) -> None:
    settings.ALLOWED_HOSTS = ["pdpp.example", "127.0.0.1"]

    with served(site()) as web:
        answer = web.get("/metrics", **headers)

    assert answer.status == 403
    assert b"PDPP_METRICS_TOKEN" in answer.content


def test_only_loopback_addresses_are_local() -> None:
    def asked_from(address: str) -> bool:
        return metrics.may_scrape({"client": (address, 1), "headers": [(b"host", b"localhost")]})

    assert asked_from("127.0.0.1")
    assert asked_from("::1")
    assert not asked_from("192.0.2.1")
    assert not asked_from("")


@pytest.mark.parametrize(
    ("bearer", "status"), [("Bearer right", 200), ("Bearer wrong", 403), ("right", 403), ("", 403)]
)
def test_configured_token_is_required(settings: Any, bearer: str, status: int) -> None:
    settings.PDPP_METRICS_TOKEN = "right"

    with served(site()) as web:
        answer = web.get("/metrics", **{"X-Forwarded-For": "203.0.113.9", "Authorization": bearer})

    assert answer.status == status


def test_ledger_rows_are_counted_after_commit(
    world: World, django_capture_on_commit_callbacks: Django
) -> None:
    before = LEDGER_ROWS._value.get()

    with django_capture_on_commit_callbacks(execute=True):
        world.get("/v1/streams/messages/records")

    assert LEDGER_ROWS._value.get() == before + 1


def test_background_runs_and_failures_are_counted() -> None:
    rounds = threading.Semaphore(0)
    failures: Iterator[Exception | None] = iter([OperationalError(), KeyError(), None])

    def tried() -> Iterator[object]:
        yield None
        rounds.release()
        if (error := next(failures, None)) is not None:
            raise error

    with background_jobs.run_repeatedly(tried, pause=0):
        for _ in range(4):
            assert rounds.acquire(timeout=60)

    assert value("pdpp_background_runs_total", job="tried", outcome="failed") == 2
    assert value("pdpp_background_runs_total", job="tried", outcome="succeeded") >= 1
    assert value("pdpp_background_success_seconds", job="tried") > 1e9


def test_django_without_the_site_has_no_metrics(client: Client) -> None:
    assert client.get("/metrics").status_code == 404
