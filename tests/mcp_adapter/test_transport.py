"""Who may speak to `/mcp`, and what the others are told."""

import logging

import pytest

from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import PUBLIC_URL
from tests.mcp_adapter.http import METADATA, initialize, modern, rpc, send
from tests.scenarios import scenario

CHALLENGE = f'Bearer resource_metadata="{METADATA}", scope="pdpp:read"'
PING = rpc("ping")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_without_a_token_every_method_is_told_where_to_sign_in(method: str, path: str) -> None:
    reply = send(PING, method=method, path=path, token=None)

    assert reply.status == 401
    assert reply.headers["www-authenticate"] == CHALLENGE
    assert reply.headers["content-type"] == "application/json"
    assert reply.body["error"]["code"] == "authentication_error"
    assert reply.body["error"]["resource_metadata"] == METADATA
    assert reply.body["error"]["next_step"]


def test_a_bad_token_is_called_invalid() -> None:
    reply = send(PING, token="pdpp_at_unknown")

    assert reply.status == 401
    assert reply.headers["www-authenticate"] == f'{CHALLENGE}, error="invalid_token"'


@pytest.mark.parametrize("ended", ["revoked", "expired", "consumed"])
def test_a_grant_that_has_ended_makes_a_host_sign_in_again(ended: str) -> None:
    reply = send(PING, token=ended)

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    assert reply.body["error"]["code"] == f"grant_{ended}"


@scenario("C6")
def test_an_owner_token_is_refused_and_nothing_is_read_with_it() -> None:
    fake = FakeRest()

    reply = send(initialize("2025-06-18"), token="pdpp_own_owner", rest=fake)

    assert reply.status == 403
    assert reply.body["error"]["code"] == "permission_error"
    assert fake.calls == []


@pytest.mark.parametrize("scheme", ["Basic abc", "Bearer", "Bearer  ", "pdpp_at_good", ""])
def test_only_a_bearer_counts(scheme: str) -> None:
    assert send(PING, token=None, authorization=scheme).status == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
def test_with_a_token_only_post_is_served(method: str) -> None:
    reply = send(PING, method=method, accept="text/event-stream")

    assert reply.status == 405
    assert reply.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_path_answer_without_a_redirect(path: str) -> None:
    assert send(PING, path=path).status == 200


@pytest.mark.parametrize("host", ["evil.example", "", "records.example.evil.example", "[::2]:80"])
def test_another_host_is_misdirected(host: str) -> None:
    reply = send(PING, host=host)

    assert reply.status == 421
    assert reply.body["error"]["code"] == "misdirected_request"


@pytest.mark.parametrize(
    "host", ["records.example", "records.example:8443", "a.trusted.example", "trusted.example",
             "RECORDS.example", "[::1]:8000", "[::1]"]
)  # fmt: skip
def test_our_own_hosts_are_served_on_any_port(host: str) -> None:
    assert send(PING, host=host).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://records.example:9"])
def test_another_origin_is_refused_before_the_token_is_looked_at(origin: str) -> None:
    assert send(PING, origin=origin, token=None).status == 403


def test_a_page_of_the_host_that_is_asked_is_served_on_any_port() -> None:
    host = "a.trusted.example:8443"

    assert send(PING, host=host, origin=f"https://{host}").status == 200
    assert send(PING, host=host, origin="https://a.trusted.example").status == 403


@pytest.mark.parametrize("origin", [PUBLIC_URL, "https://inspector.example", None])
def test_our_own_origins_and_none_are_served(origin: str | None) -> None:
    assert send(PING, origin=origin).status == 200


def test_a_body_beyond_the_limit_is_refused_by_its_declared_and_by_its_real_length() -> None:
    declared = send(b" " * 30_000, content_length="30000")
    real = send(b" " * 30_000)

    assert (declared.status, real.status) == (413, 413)
    assert declared.body["error"]["code"] == "resource_limit"
    assert "error" in real.body


def test_a_fault_in_authentication_shows_nothing_of_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL, logger="mcp_adapter.streamable_http"):
        reply = send(PING, token="broken")

    assert reply.status == 503
    assert b"secret" not in reply.content


def test_nothing_personal_is_kept_by_a_cache() -> None:
    for reply in (send(PING), send(PING, token=None), modern("tools/list")):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
