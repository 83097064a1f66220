"""The REST clients over HTTP and in process."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from evidence.record_ids import path_segment
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import HttpRest, RestResponse
from tests.mcp_adapter.hosts import call, error_of, structured, text_of

Answering = Callable[[httpx2.Request], httpx2.Response]


def http_rest(answer: Answering) -> HttpRest:
    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return HttpRest("https://provider.example/", client=client)


def test_http_rest_sends_bearer_and_parameters_unchanged() -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={"object": "list"}, headers={"X-One": "1"})

    response = http_rest(answer).get(
        "/v1/streams/a%2Fb/records", [("filter[x]", "1 & 2")], "pdpp_at_x", headers={"Range": "y"}
    )

    http_rest(answer).get("/v1/search", [("fields", "a,b"), ("q", "c,d")], "t")

    assert requests.pop().url.raw_path == b"/v1/search?fields=a&fields=b&q=c%2Cd"
    (request,) = requests
    assert request.headers["authorization"] == "Bearer pdpp_at_x"
    assert request.headers["range"] == "y"
    assert request.url.raw_path == b"/v1/streams/a%2Fb/records?filter%5Bx%5D=1+%26+2"
    assert (response.status, response.body, response.headers["x-one"]) == (
        200,
        {"object": "list"},
        "1",
    )


@pytest.mark.parametrize("content", [b"<html>", b"[1]", b"\x89PNG"])
def test_non_object_body_is_bytes(content: bytes) -> None:
    response = http_rest(lambda _request: httpx2.Response(200, content=content)).get(
        "/v1/x", [], "t"
    )

    assert response.body == content


@pytest.mark.parametrize("offered", [None, ["form", "max_bytes"], "form"])
def test_parameters_beyond_the_contract_go_to_servers_that_offer_them(offered: object) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.copy_with(scheme=None, host=None)))
        if request.url.path == "/.well-known/oauth-protected-resource":
            assert "authorization" not in request.headers
            return httpx2.Response(200, json={"pdpp_extension_parameters": offered})
        return httpx2.Response(200, json={"data": []})

    rest = http_rest(answer)
    params = [("q", "a"), ("form", "compact"), ("max_bytes", "9000"), ("max_line_bytes", "4000")]
    for _ in range(2):
        rest.get("/v1/search", params, "t")

    sent = "&form=compact&max_bytes=9000" if isinstance(offered, list) else ""
    assert [url for url in asked if "search" in url] == [f"/v1/search?q=a{sent}"] * 2
    assert len(asked) == 3


@pytest.mark.parametrize("name", ["after", "before", "match", "occurrence", "quote"])
def test_a_call_that_a_server_would_misunderstand_is_refused(name: str) -> None:
    state: dict[str, Any] = {"metadata": 503, "offered": []}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if "oauth" in request.url.path:
            offered = {"pdpp_extension_parameters": state["offered"]}
            return httpx2.Response(state["metadata"], json=offered)
        return httpx2.Response(200, json={"sent": request.url.query.decode()})

    def ask(rest: HttpRest) -> RestResponse:
        return rest.get("/v1/streams/messages/records", [(name, "1"), ("form", "compact")], "t")

    rest = http_rest(answer)
    assert ask(rest).status == 503
    state["metadata"] = 200
    refused = ask(rest)
    state["offered"] = [name]
    assert ask(http_rest(answer)).body == {"sent": f"{name}=1"}

    assert refused.status == 400
    assert isinstance(refused.body, dict)
    assert refused.body["error"]["code"] == "unsupported_parameter"
    assert refused.body["error"]["param"] == name


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_server_whose_metadata_cannot_be_read_is_asked_again(is_reached: bool) -> None:
    state = {"up": False}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/search":
            return httpx2.Response(200, json={"sent": request.url.query.decode()})
        if not state["up"] and is_reached:
            return httpx2.Response(503, json={})
        if not state["up"]:
            raise httpx2.ConnectError("down")
        return httpx2.Response(200, json={"pdpp_extension_parameters": ["form"]})

    rest = http_rest(answer)
    without = rest.get("/v1/search", [("form", "compact")], "t").body
    state["up"] = True
    assert (without, rest.get("/v1/search", [("form", "compact")], "t").body) == (
        {"sent": ""},
        {"sent": "form=compact"},
    )


def test_a_blob_stays_as_it_is() -> None:
    content = b'{"object": "record", "links": null, "records": [{"meta": null}]}'
    rest = http_rest(lambda _request: httpx2.Response(200, content=content))

    assert rest.get("/v1/blobs/blob_1", [], "t").body == content


def test_redirect_is_not_followed() -> None:
    requests: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request.url.host)
        return httpx2.Response(302, headers={"Location": "https://elsewhere.example/"})

    assert http_rest(answer).get("/v1/schema", [], "t").status == 302
    assert requests == ["provider.example"]


def test_unreachable_server_returns_503_error() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route", request=request)

    response = http_rest(answer).get("/v1/schema", [], "t")

    assert response.status == 503
    assert isinstance(response.body, dict)
    assert response.body["error"]["next_step"]


@pytest.mark.parametrize(
    ("text", "encoded"), [("a/b", "a%2Fb"), ("..", "%2E%2E"), (".", "%2E"), ("a.b", "a.b")]
)
def test_path_segment_is_encoded(text: str, encoded: str) -> None:
    assert path_segment(text) == encoded


def test_unknown_path_returns_404() -> None:
    response = InProcessRest().get("/nowhere/at/all", [], None)

    assert response.status == 404
    assert isinstance(response.body, dict)
    assert response.body["error"]["code"] == "not_found"


HIT = {"stream": "messages", "record_key": "m1", "connection_id": "cin_1", "title": "A lease"}
RECORD = {"object": "record", "id": "m1", "stream": "messages", "connection_id": "cin_1"}
CONNECTOR = {
    "connector_key": "mail",
    "granted_connections": [{"connection_id": "cin_1", "display_name": "Mail"}],
    "streams": [{"name": "messages", "schema": {"type": "object", "properties": {"id": {}}}}],
}


@pytest.mark.parametrize(
    ("tool", "arguments", "body", "shown"),
    [
        ("search", {"q": "x"}, {"data": [{**HIT, "snippet": None}]}, "A lease"),
        ("search", {"q": "x"}, {"data": [{**HIT, "snippet": "text"}], "meta": None}, "A lease"),
        ("search", {"q": "x"}, {"data": [{**HIT, "evidence_excerpts": [{"text": "x"}]}]}, "A lease"),
        ("search", {"q": "x"}, {"data": [HIT], "meta": {"recall": None, "count": None}}, "A lease"),
        ("search", {"q": "x"}, {"data": [{**HIT, "evidence_excerpts": None}]}, "A lease"),
        ("search", {"q": "x"}, {"data": [HIT], "meta": None, "links": None}, "A lease"),
        ("query_records", {"stream": "messages"}, {"data": [{**RECORD, "data": None}]}, "m1"),
        ("schema", {}, {"detail": "full", "connectors": [CONNECTOR]}, "messages"),
        ("schema", {"stream": "messages"}, {"detail": "all", "connectors": [CONNECTOR]}, "id"),
        ("schema", {}, {"object": "schema"}, "connectors"),
        ("fetch", {"id": "cin_1/messages:m1"}, {**RECORD, "data": None}, "messages"),
    ],
)  # fmt: skip
def test_bodies_of_other_servers_are_shown(
    tool: str, arguments: dict[str, Any], body: dict[str, Any], shown: str
) -> None:
    result = call(http_rest(lambda _request: httpx2.Response(200, json=body)), tool, **arguments)

    assert not result.is_error, structured(result)
    assert shown in text_of(result) + str(structured(result))


@pytest.mark.parametrize("offered", [[], ["form"]])
@pytest.mark.parametrize("tool", ["search", "fetch"])
def test_addresses_of_records_are_pages_only_where_there_are_pages(
    tool: str, offered: list[str]
) -> None:
    path = "/v1/streams/messages/records/m1"

    def answer(request: httpx2.Request) -> httpx2.Response:
        if "oauth" in request.url.path:
            return httpx2.Response(200, json={"pdpp_extension_parameters": offered})
        found = {"data": [{**HIT, "record_url": path}]}
        return httpx2.Response(200, json=found if tool == "search" else RECORD | {"data": {}})

    arguments = {"q": "x"} if tool == "search" else {"id": "cin_1/messages:m1"}
    shown = structured(call(http_rest(answer), tool, **arguments))

    entry = shown["results"][0] if tool == "search" else shown
    expected = "/records/cin_1/messages/m1" if offered else path
    assert entry["url"].endswith(expected)
    assert entry["url"].startswith("http")


@pytest.mark.parametrize("tool", ["schema", "search", "query_records", "aggregate"])
@pytest.mark.parametrize("body", [{"connectors": {"a": {}}, "data": None, "groups": ["x"]}])
def test_responses_of_other_shapes_are_named_as_such(tool: str, body: dict[str, Any]) -> None:
    rest = http_rest(lambda _: httpx2.Response(200, json=body))
    arguments = {
        "schema": {}, "search": {"q": "x"}, "query_records": {"stream": "messages"},
        "aggregate": {"stream": "messages", "metric": "count", "group_by": "a"},
    }[tool]  # fmt: skip

    error = error_of(call(rest, tool, **arguments))

    assert error["code"] == "unreadable_response"
    assert "schema" in error["next_step"]
