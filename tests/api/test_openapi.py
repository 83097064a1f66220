"""The OpenAPI document, and the routes against it."""

from typing import Any

import jsonschema_rs
import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver

from evidence.api.openapi import document
from tests.world import BANK, PERSONAL, World

PAGE = "/docs/"


def routes() -> set[str]:
    """What ``evidence.api.urls`` really answers, worded as the document words paths."""
    v1 = next(each for each in get_resolver().url_patterns if str(each.pattern) == "v1/")
    found = set()
    for each in v1.url_patterns:
        assert isinstance(each, URLPattern)
        route = str(each.pattern)
        if not route.startswith("^") and route != "openapi.json":
            found.add("/" + route.replace("<str:", "{").replace("<path:", "{").replace(">", "}"))
    return found


def test_it_describes_every_route_and_no_other() -> None:
    assert set(document()["paths"]) == routes()


def test_it_is_served_to_anybody_and_the_page_needs_no_network(client: Client) -> None:
    assert client.get("/v1/openapi.json").json() == document()
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "http" not in page.content.decode().replace("/v1/openapi.json", "")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]


ASKED = [
    ("/v1/schema", {}, "Schema"),
    ("/v1/schema", {"view": "compact"}, "Schema"),
    ("/v1/schema", {"view": "index"}, "Schema"),
    ("/v1/streams", {}, "StreamList"),
    ("/v1/streams/messages", {}, "StreamMetadata"),
    ("/v1/streams/messages/records", {"limit": 2, "window": "exact"}, "RecordList"),
    ("/v1/streams/messages/records/m2", {}, "Record"),
    (
        "/v1/streams/messages/records/m2/field-window",
        {"field": "body_text", "q": "deposit"},
        "FieldWindow",
    ),
    ("/v1/streams/messages/aggregate", {"metric": "count", "group_by": "from_name"}, "Aggregation"),
    ("/v1/search", {"q": "lease"}, "SearchHits"),
    ("/v1/connectors", {}, "ConnectorList"),
    ("/v1/streams/messages/records", {"nope": "1"}, "Error"),
    ("/v1/streams/messages/records/m1", {}, "Error"),
]


@pytest.mark.parametrize(("path", "query", "schema"), ASKED)
def test_answers_are_as_described(
    world: World, path: str, query: dict[str, Any], schema: str
) -> None:
    described = {"$ref": f"#/components/schemas/{schema}", "components": document()["components"]}
    answer = world.get(path, **query)
    assert [str(error) for error in jsonschema_rs.iter_errors(described, answer.body)] == []


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_hits_of_further_modes_are_as_described(embedded: World, mode: str) -> None:
    test_answers_are_as_described(embedded, f"/v1/search/{mode}", {"q": "lease"}, "SearchHits")


def test_parameters_are_those_of_the_views(world: World) -> None:
    for path, operations in document()["paths"].items():
        operation = operations.get("get")
        if operation is None:
            continue
        concrete = path.replace("{stream}", "messages").replace("{record_id}", "m2")
        answer = world.get("/v1" + concrete.replace("{connector_id}", "mail"), "alice", nope="1")
        named = {each["name"] for each in operation["parameters"]}
        told = answer.error["next_step"].removeprefix("This route takes: ").rstrip(".")
        assert named == (set() if "no parameters" in told else set(told.split(", "))), path


def test_nothing_in_it_is_personal(world: World) -> None:
    text = str(document())
    for word in (PERSONAL, BANK, "Lease", "Personal mail"):
        assert word not in text
