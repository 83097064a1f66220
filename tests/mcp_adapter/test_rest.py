"""The two forms of the door."""

from collections.abc import Callable

import httpx2
import pytest

from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import HttpRest, segment

Answering = Callable[[httpx2.Request], httpx2.Response]


def remote(answer: Answering) -> HttpRest:
    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return HttpRest("https://provider.example/", client=client)


def test_a_remote_provider_gets_the_bearer_and_the_parameters_as_they_are() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={"object": "list"}, headers={"X-One": "1"})

    found = remote(answer).get(
        "/v1/streams/a%2Fb/records", [("filter[x]", "1 & 2")], "pdpp_at_x", headers={"Range": "y"}
    )

    (request,) = asked
    assert request.headers["authorization"] == "Bearer pdpp_at_x"
    assert request.headers["range"] == "y"
    assert request.url.raw_path == b"/v1/streams/a%2Fb/records?filter%5Bx%5D=1+%26+2"
    assert (found.status, found.body, found.headers["x-one"]) == (200, {"object": "list"}, "1")


@pytest.mark.parametrize("content", [b"<html>", b"[1]", b"\x89PNG"])
def test_what_is_no_json_object_comes_as_bytes(content: bytes) -> None:
    found = remote(lambda _request: httpx2.Response(200, content=content)).get("/v1/x", [], "t")

    assert found.body == content


def test_a_redirect_is_not_followed_with_the_bearer() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(302, headers={"Location": "https://elsewhere.example/"})

    assert remote(answer).get("/v1/schema", [], "t").status == 302
    assert asked == ["provider.example"]


def test_an_unreachable_provider_is_an_error_like_any_other() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route", request=request)

    found = remote(answer).get("/v1/schema", [], "t")

    assert found.status == 503
    assert isinstance(found.body, dict)
    assert found.body["error"]["next_step"]


@pytest.mark.parametrize(
    ("text", "encoded"), [("a/b", "a%2Fb"), ("..", "%2E%2E"), (".", "%2E"), ("a.b", "a.b")]
)
def test_a_segment_never_changes_the_path(text: str, encoded: str) -> None:
    assert segment(text) == encoded


def test_a_path_that_no_view_serves_is_not_found() -> None:
    found = InProcessRest().get("/nowhere/at/all", [], None)

    assert found.status == 404
    assert isinstance(found.body, dict)
    assert found.body["error"]["code"] == "not_found"
