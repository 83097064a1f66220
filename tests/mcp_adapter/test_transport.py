"""Access to `/mcp`: hosts, origins, tokens and methods, and their errors."""

import logging
from typing import Any

import pytest

from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import PUBLIC_URL
from tests.mcp_adapter.http import METADATA, initialize, modern, rpc, send
from tests.scenarios import scenario

CHALLENGE = f'Bearer resource_metadata="{METADATA}", scope="pdpp:read"'
PING = rpc("ping")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_every_method_without_token_gets_401_with_metadata_url(method: str, path: str) -> None:
    reply = send(PING, method=method, path=path, token=None)

    assert reply.status == 401
    assert reply.headers["www-authenticate"] == CHALLENGE
    assert reply.headers["content-type"] == "application/json"
    assert reply.body["error"]["code"] == "authentication_error"
    assert reply.body["error"]["resource_metadata"] == METADATA
    assert reply.body["error"]["next_step"]


def test_bad_token_is_reported_as_invalid_token() -> None:
    reply = send(PING, token="pdpp_at_unknown")

    assert reply.status == 401
    assert reply.headers["www-authenticate"] == f'{CHALLENGE}, error="invalid_token"'


@pytest.mark.parametrize("ended", ["revoked", "expired", "consumed"])
def test_ended_grant_returns_401(ended: str) -> None:
    reply = send(PING, token=ended)

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    assert reply.body["error"]["code"] == f"grant_{ended}"


@pytest.mark.parametrize(
    "request_body", [initialize("2025-06-18"), rpc("tools/list"), rpc("resources/templates/list")]
)
def test_paused_grant_connects_and_lists(request_body: dict[str, Any]) -> None:
    assert send(request_body, token="paused").body["result"]


def test_paused_grant_connects_and_lists_at_the_newest_revision() -> None:
    for method in ("server/discover", "tools/list", "resources/templates/list"):
        assert modern(method, token="paused").body["result"]["resultType"] == "complete"


def test_paused_grant_reads_nothing() -> None:
    fake = FakeRest()

    called = modern("tools/call", {"name": "schema", "arguments": {}}, token="paused", rest=fake)
    read = modern("resources/read", {"uri": "pdpp://stream/mail"}, token="paused", rest=fake)

    assert called.body["result"]["isError"] is True
    error = called.body["result"]["structuredContent"]["error"]
    assert error["code"] == "grant_paused"
    assert "owner" in called.body["result"]["structuredContent"]["next_step"]
    assert read.body["error"]["data"]["error"]["code"] == "grant_paused"
    assert fake.calls == []


@scenario("C6")
def test_owner_token_is_refused_before_reading() -> None:
    fake = FakeRest()

    reply = send(initialize("2025-06-18"), token="pdpp_own_owner", rest=fake)

    assert reply.status == 403
    assert reply.body["error"]["code"] == "permission_error"
    assert fake.calls == []


@pytest.mark.parametrize("scheme", ["Basic abc", "Bearer", "Bearer  ", "pdpp_at_good", ""])
def test_only_bearer_scheme_is_accepted(scheme: str) -> None:
    assert send(PING, token=None, authorization=scheme).status == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
def test_only_post_is_served(method: str) -> None:
    reply = send(PING, method=method, accept="text/event-stream")

    assert reply.status == 405
    assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_path_with_and_without_slash_responds_without_redirect(path: str) -> None:
    assert send(PING, path=path).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://records.example:9"])
def test_unknown_origin_is_refused_before_authentication(origin: str) -> None:
    assert send(PING, origin=origin, token=None).status == 403


def test_same_origin_is_served_on_any_port() -> None:
    host = "a.trusted.example:8443"

    assert send(PING, host=host, origin=f"https://{host}").status == 200
    assert send(PING, host=host, origin="https://a.trusted.example").status == 403


@pytest.mark.parametrize("origin", [PUBLIC_URL, "https://inspector.example", None])
def test_allowed_and_missing_origins_are_served(origin: str | None) -> None:
    reply = send(PING, origin=origin)

    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers


def test_too_large_body_is_refused_by_declared_and_actual_length() -> None:
    declared = send(b" " * 30_000, content_length="30000")
    real = send(b" " * 30_000)

    assert (declared.status, real.status) == (413, 413)
    assert declared.body["error"]["code"] == "resource_limit"
    assert "error" in real.body


def test_authentication_error_shows_no_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL, logger="mcp_adapter.streamable_http"):
        reply = send(PING, token="broken")

    assert reply.status == 503
    assert b"secret" not in reply.content


def test_responses_are_not_cacheable() -> None:
    for reply in (send(PING), send(PING, token=None), modern("tools/list")):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_page_of_a_named_origin_may_call_with_a_bearer_only() -> None:
    origin = "https://app.example"

    preflight = send(method="OPTIONS", origin=origin, token=None)
    called, refused = send(PING, origin=origin), send(PING, origin=origin, token=None)

    assert (preflight.status, preflight.content) == (204, b"")
    assert "mcp-protocol-version" in preflight.headers["access-control-allow-headers"]
    assert (called.status, refused.status) == (200, 401)
    for reply in (preflight, called, refused):
        assert reply.headers["access-control-allow-origin"] == origin
        assert reply.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.evil.example"])
def test_page_of_another_origin_gets_no_cors_headers(origin: str) -> None:
    for reply in (send(PING, origin=origin), send(method="OPTIONS", origin=origin, token=None)):
        assert reply.status == 403
        assert not [name for name in reply.headers if name.startswith("access-control")]
