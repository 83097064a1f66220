"""Input that no client of good will sends: always a typed 4xx that names the parameter."""

from typing import Any

import pytest
from django.test import Client

from tests.world import World

ROUTES = [
    "/v1/schema",
    "/v1/streams",
    "/v1/streams/messages",
    "/v1/streams/messages/records",
    "/v1/streams/messages/records/m2",
    "/v1/streams/messages/records/m2/field-window",
    "/v1/streams/messages/aggregate",
    "/v1/search",
    "/v1/connectors",
]
HOSTILE = [
    pytest.param("connection_id=" + "x" * 1_000_000, id="a megabyte"),
    pytest.param("connection_id=a%00b", id="NUL"),
    pytest.param("conn%00ection_id=a", id="NUL in a name"),
    pytest.param("connection_id[[[=a", id="open brackets"),
    pytest.param("connection_id" + "[a]" * 50 + "=a", id="deep brackets"),
    pytest.param("connection_id=a&connection_id=b", id="twice"),
    pytest.param("connection_id[]=a", id="a list"),
    pytest.param("&".join(f"p{n}=1" for n in range(10_000)), id="ten thousand parameters"),
    pytest.param("&".join("connection_id=a" for _ in range(10_001)), id="one of them repeated"),
    pytest.param("%FF%FE=1", id="no UTF-8"),
    pytest.param("connection_id=%E2%80%AE..%2F..%2Fetc", id="bidi and dots"),
    pytest.param("=1", id="no name"),
    pytest.param("__proto__[x]=1", id="another language's trick"),
    pytest.param("format=xml", id="the framework's own"),
]


@pytest.mark.parametrize("query", HOSTILE)
def test_every_route_refuses_it_by_name(world: World, query: str) -> None:
    client = Client(headers={"Authorization": f"Bearer {world.tokens['bob']}"})
    for route in ROUTES:
        response = client.get(route, QUERY_STRING=query)
        assert 400 <= response.status_code < 500, (route, response.status_code)
        error = response.json()["error"]
        assert error["code"] in {"invalid_request", "connection_not_found", "invalid_argument"}
        assert len(response.content) < 3_000


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/streams/%2e%2e/records"),
        ("GET", "/v1/streams/a%00b/records"),
        ("GET", "/v1/streams/" + "x" * 5_000 + "/records"),
        ("GET", "/v1/streams/messages/records/" + "x" * 5_000),
        ("GET", "/v1/streams/messages/records/%00"),
        ("GET", "/v1//schema"),
        ("GET", "/v1/streams/messages/records/a%0Ab"),
        ("GET", "/v1/streams/messages/records/a%0Ab/field-window"),
        ("GET", "/v1/event-subscriptions/a%00b"),
        ("DELETE", "/v1/event-subscriptions/a%00b"),
        ("PATCH", "/v1/schema"),
        ("TRACE", "/v1/schema"),
        ("BREW", "/v1/search"),
    ],
)
def test_hostile_paths_and_methods_are_refused(world: World, method: str, path: str) -> None:
    answer: Any = world.call(method, path)
    assert 400 <= answer.status < 500
    assert answer.error["request_id"]


@pytest.mark.parametrize("path", ["/v1/connectors/a%00b", "/v1/state/a%00b", "/v1/ingest/a%00b"])
def test_hostile_paths_of_the_owner_are_refused(world: World, path: str) -> None:
    assert world.call("GET", path, "alice").status in (404, 405)


def test_nothing_secret_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    world.get("/v1/search", q="lease", nope="sesame")
    world.get("/v1/streams/messages/records/m2", who="pdpp_at_someone_elses")
    logged = caplog.text
    for secret in ("sesame", "pdpp_at_someone_elses", world.tokens["bob"]):
        assert secret not in logged
