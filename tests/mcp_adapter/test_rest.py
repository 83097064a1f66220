"""The REST clients over HTTP and in process."""

from collections.abc import Callable

import httpx2
import pytest

from evidence.record_ids import path_segment
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import HttpRest

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
