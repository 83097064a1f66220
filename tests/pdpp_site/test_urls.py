"""Every way in at the top of the site stands here, so that a new one is a visible change."""

import pytest
from django.contrib.sessions.middleware import SessionMiddleware
from django.test import Client
from django.urls import get_resolver

from owner.permissions import PAGE_HEADERS


def test_the_ways_in_are_these() -> None:
    assert [str(pattern.pattern) for pattern in get_resolver().url_patterns] == [
        "",
        "sse",
        "docs/",
        "v1/",
        "connectors",
        "connectors/<path:connector_id>",
        ".well-known/oauth-protected-resource",
        ".well-known/oauth-protected-resource/mcp",
        ".well-known/oauth-protected-resource/mcp/events",
        ".well-known/skills/index.json",
        ".well-known/skills/read-personal-data/SKILL.md",
        "",  # owner.urls
        "admin/",
    ]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
    ],
)
def test_the_front_is_a_page_for_people_and_an_index_for_programs(
    client: Client, accept: str, kind: str
) -> None:
    answer = client.get("/", headers={"Accept": accept})

    assert answer.status_code == 200
    assert answer["Content-Type"] == kind
    if kind.startswith("text/html"):
        assert PAGE_HEADERS.items() <= dict(answer.items()).items()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/", 405), ("DELETE", "/", 405), ("GET", "/sse", 404), ("POST", "/sse", 404)],
)
@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000"])
def test_wrong_address_for_mcp_names_the_right_one(
    method: str, path: str, status: int, host: str
) -> None:
    client = Client(enforce_csrf_checks=True, HTTP_HOST=host)

    answer = client.generic(method, path, headers={"Accept": "application/json, text/event-stream"})

    assert answer.status_code == status
    assert f"http://{host}/mcp" in answer.json()["error"]["message"]
    assert answer.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/set-up/", "/records/only"])
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.head(path).status_code == 404


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/events"])
def test_what_a_token_is_for_can_be_read_without_one(client: Client, path: str) -> None:
    answer = client.get(f"/.well-known/oauth-protected-resource{path}")

    assert answer.status_code == 200
    assert answer.json()["resource"] == f"http://127.0.0.1:8000{path}"


def test_the_style_of_the_pages_is_served_without_collecting_it(client: Client, db: None) -> None:
    answer = client.get("/static/pdpp_site/page.css")

    assert answer.status_code == 200
    assert "Access-Control-Allow-Origin" not in answer
    answer.close()


@pytest.mark.django_db
def test_the_api_is_answered_without_the_middleware_of_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a session")

    monkeypatch.setattr(SessionMiddleware, "process_request", refuse)
    answer = client.get("/v1/schema")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "authentication_error")
    with pytest.raises(AssertionError, match="a session"):
        client.get("/")
