"""`pdpp connect` and `pdpp disconnect` against a fake of the public reference (contract 1.8)."""

import json
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.credentials import CredentialCache
from tests.cli.conftest import Shell
from tests.cli.reference_server import APPROVED, AS, RS, WAITING, ReferenceServer
from tests.scenarios import scenario

FILE = Path("config/pdpp/clients/rs.example.json")


@pytest.fixture
def reference(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> ReferenceServer:
    """Return the fake server, with a clock that advances only during sleep."""
    reference = shell.send = ReferenceServer()
    now = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return reference


def read_entry() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(FILE.read_text())
    return read


@pytest.mark.parametrize("words", [[], ["--device"]])
def test_server_that_starts_no_request_leads_to_a_token(
    shell: Shell, reference: ReferenceServer, words: list[str]
) -> None:
    reference.several_sources = True

    result = shell("connect", "rs.example", *words)

    assert result.code == 65
    assert "Name the sources." in result.err
    assert "set PDPP_ACCESS_TOKEN" in result.err


def test_connect_prints_approval_url_and_stores_credential(
    shell: Shell, reference: ReferenceServer
) -> None:
    result = shell("connect", "rs.example")

    assert result.code == 0, result.err
    assert f"{AS}/consent?x=1" in result.err
    stored = read_entry()
    assert stored.pop("created_at")
    assert stored == {
        "provider_url": RS,
        "authorization_server": AS,
        "scope": "pdpp:read",
        "client": {
            "client_id": "cli_9",
            "client_name": "PDPP CLI",
            "token_endpoint_auth_method": "none",
        },
        "credential": {
            "access_token": "at_x",
            "token_type": "Bearer",
            "grant_id": "grt_3",
            "scope": "pdpp:read",
        },
        "token_endpoint": f"{AS}/oauth/token",
    }
    assert "at_x" not in result.out + result.err
    assert reference.sent[:3] == [
        ("/oauth/register", {"client_name": "PDPP CLI", "token_endpoint_auth_method": "none"}),
        (
            "/agent-connect",
            {
                "resource": RS,
                "scope": "pdpp:read",
                "client_name": "PDPP CLI",
                "client_id": "cli_9",
            },
        ),
        ("/agent-connect/agc_1/token", {"polling_code": "agc_poll_1"}),
    ]


def test_cache_is_private_and_ignored_by_git(shell: Shell, reference: ReferenceServer) -> None:
    shell("connect", RS)

    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert stat.S_IMODE(FILE.parent.stat().st_mode) == 0o700
    assert (FILE.parent.parent / ".gitignore").read_text() == "*\n"
    assert [path.name for path in FILE.parent.iterdir()] == ["rs.example.json"]


def test_known_client_is_not_registered_again(shell: Shell, reference: ReferenceServer) -> None:
    shell("connect", RS)
    reference.sent.clear()
    reference.decisions = [APPROVED]

    assert shell("connect", RS).code == 0
    assert [path for path, _ in reference.sent] == ["/agent-connect", "/agent-connect/agc_1/token"]
    assert reference.sent[0][1]["client_id"] == "cli_9"


def test_device_option_prints_a_user_code(shell: Shell, reference: ReferenceServer) -> None:
    reference.decisions = [
        (400, {"error": "authorization_pending"}),
        (400, {"error": "slow_down"}),
        (200, {"access_token": "at_d", "expires_in": 600, "refresh_token": "rt"}),
    ]

    result = shell("connect", RS, "--device", "--json")

    assert result.code == 0, result.err
    assert "ABCD-EFGH" in result.err
    assert result.body["provider_url"] == RS
    assert "at_d" not in result.out
    assert [sent.get("grant_type") for _, sent in reference.sent[-3:]] == [
        "urn:ietf:params:oauth:grant-type:device_code"
    ] * 3
    assert read_entry()["credential"]["refresh_token"] == "rt"


@pytest.mark.parametrize(
    ("protected", "server", "path"),
    [
        ({}, {"agent_connect_endpoint": None, "pdpp_agent_connect_endpoint": f"{AS}/agent-connect"},
         "/agent-connect"),
        ({"pdpp_agent_discovery": {"agent_connect_endpoint": f"{AS}/agent-connect"}},
         {"agent_connect_endpoint": None}, "/agent-connect"),
        ({}, {"agent_connect_endpoint": None}, "/oauth/device_authorization"),
        ({"pdpp_agent_discovery": None}, {"pdpp_registration_modes_supported": None},
         "/agent-connect"),
    ],
)  # fmt: skip
def test_agent_connect_endpoint_is_found_in_either_document(
    shell: Shell, reference: ReferenceServer, protected: Any, server: Any, path: str
) -> None:
    reference.protected, reference.server = protected, server
    reference.decisions = [APPROVED]

    assert shell("connect", RS).code == 0
    assert path in [sent_path for sent_path, _ in reference.sent]


def test_public_client_is_used_without_registration(
    shell: Shell, reference: ReferenceServer
) -> None:
    known = [{"client_id": "public_1", "client_name": "CLI"}]
    reference.server = {
        "registration_endpoint": None,
        "pdpp_pre_registered_public_clients": known,
    }

    assert shell("connect", RS).code == 0
    assert read_entry()["client"]["client_id"] == "public_1"


@pytest.mark.parametrize(
    ("decision", "code", "expected"),
    [
        ((403, {"error": "access_denied"}), 77, "(access_denied)"),
        ((400, {"error": "expired_token"}), 75, "(expired_token)"),
        ((403, {"error": "insufficient_scope"}), 77, "(insufficient_scope)"),
        ((401, {"error": "invalid_grant"}), 78, "(invalid_grant)"),
        ((418, {"error": "odd", "error_description": "Odd."}), 76, "(connect_request_failed)"),
        ((503, {}), 69, "(connect_request_failed)"),
        ((200, {"status": "approved"}), 76, "(connect_request_failed)"),
        (WAITING, 75, "did not approve the request in time"),
    ],
)
def test_failed_requests_are_reported_and_store_nothing(
    shell: Shell, reference: ReferenceServer, decision: Any, code: int, expected: str
) -> None:
    reference.decisions = [WAITING, decision]

    result = shell("connect", RS)

    assert result.code == code, result.err
    assert expected in result.err
    assert not FILE.exists()


@pytest.mark.parametrize(
    ("protected", "server", "code", "expected"),
    [
        ({"resource": "https://other.example"}, {}, 76, "Use the address https://other.example"),
        ({}, {"issuer": "https://evil.example"}, 76, "discovery_mismatch"),
        ({}, {"issuer": None}, 76, "discovery_mismatch"),
        ({}, {"agent_connect_endpoint": None, "device_authorization_endpoint": None}, 76, "no_way"),
    ],
)
def test_contradictory_metadata_is_rejected(
    shell: Shell, reference: ReferenceServer, protected: Any, server: Any, code: int, expected: str
) -> None:
    reference.protected, reference.server = protected, server

    result = shell("connect", RS)

    assert result.code == code
    assert expected in result.err
    assert not FILE.exists()


@scenario("C6")
def test_owner_tokens_are_rejected(shell: Shell, reference: ReferenceServer) -> None:
    reference.protected = {"pdpp_agent_discovery": {"cli": {"no_owner_token": False}}}
    announced = shell("connect", RS)
    reference.protected = {}
    reference.schema = (200, {"bearer": {"token_kind": "owner"}})
    expected = shell("connect", RS)
    reference.decisions = [(200, {"access_token": "pdpp_own_x"})]
    recognised = shell("connect", RS)

    assert (announced.code, expected.code, recognised.code) == (77, 77, 77)
    assert not FILE.exists()


def test_token_without_read_access_is_not_stored(shell: Shell, reference: ReferenceServer) -> None:
    reference.schema = (403, {"error": {"code": "permission_error", "message": "No."}})

    result = shell("connect", RS)

    assert (result.code, "(insufficient_scope)" in result.err) == (77, True)
    assert not FILE.exists()


def test_connect_without_network_is_unavailable(shell: Shell) -> None:
    assert shell("connect", RS).code == 69


def test_only_cached_credential_needs_no_provider_url(
    shell: Shell, reference: ReferenceServer
) -> None:
    shell("connect", RS)
    shell.requests.clear()

    assert shell("schema").code == 0
    assert shell.requests[0].headers["authorization"] == "Bearer at_x"
    assert shell.requests[0].url.host == "rs.example"


def store_credential(**credential: Any) -> None:
    CredentialCache().write(
        RS,
        {
            "provider_url": RS,
            "authorization_server": AS,
            "client": {"client_id": "cli_9"},
            "token_endpoint": f"{AS}/oauth/token",
            "credential": {"access_token": "at_old", **credential},
        },
    )


def time_ago(**time: int) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


def test_expired_token_is_refreshed_once_and_stored(
    shell: Shell, reference: ReferenceServer
) -> None:
    store_credential(expires_at=time_ago(minutes=1), refresh_token="rt_1", grant_id="grt_3")
    reference.decisions = [
        (200, {"access_token": "at_new", "expires_in": 600, "refresh_token": "rt_2"})
    ]

    first, second = shell("schema"), shell("schema")

    assert (first.code, second.code) == (0, 0)
    assert reference.sent == [
        (
            "/oauth/token",
            {"grant_type": "refresh_token", "refresh_token": "rt_1", "client_id": "cli_9"},
        )
    ]
    stored = read_entry()["credential"]
    assert (stored["access_token"], stored["refresh_token"], stored["grant_id"]) == (
        "at_new", "rt_2", "grt_3",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("credential", "decision", "code"),
    [
        ({}, APPROVED, 78),
        ({"refresh_token": "rt"}, (400, {"error": "invalid_grant"}), 78),
        ({"refresh_token": "rt"}, (502, {}), 69),
    ],
)
def test_failed_refresh_suggests_connect(
    shell: Shell, reference: ReferenceServer, credential: Any, decision: Any, code: int
) -> None:
    store_credential(expires_at=time_ago(hours=1), **credential)
    reference.decisions = [decision]

    result = shell("schema")

    assert result.code == code
    assert f"pdpp connect {RS}" in result.err


def test_disconnect_revokes_and_deletes_tokens(shell: Shell, reference: ReferenceServer) -> None:
    reference.server = {"revocation_endpoint": f"{AS}/oauth/revoke"}
    store_credential(refresh_token="rt_1")

    result = shell("disconnect", "--json")

    assert result.body == {"object": "disconnected", "provider_url": RS, "revoked": True}
    assert [sent["token"] for _, sent in reference.sent] == ["rt_1", "at_old"]
    assert not FILE.exists()
    assert shell("disconnect", "--provider-url", RS).code == 78


def test_disconnect_without_revocation_endpoint(shell: Shell, reference: ReferenceServer) -> None:
    store_credential()

    result = shell("disconnect")

    assert result.code == 0
    assert "owner can revoke" in result.err
    assert not FILE.exists()


def test_disconnect_without_network_keeps_token_unless_local(shell: Shell) -> None:
    store_credential()

    assert shell("disconnect").code == 69
    assert FILE.exists()
    assert shell("disconnect", "--local").code == 0
    assert not FILE.exists()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1_8000.json"),
        ("https://Records.Example:443/", "records.example.json"),
        ("https://[::1]:8443", "___1__8443.json"),
        ("https://records.example/mcp", "records.example.json"),
    ],
)
def test_each_host_has_its_own_cache_file(shell: Shell, url: str, name: str) -> None:
    from cli.http_client import normalize_url

    assert CredentialCache().path(normalize_url(url)).name == name


def test_damaged_cache_is_no_credential(shell: Shell) -> None:
    store_credential()
    FILE.write_text("{half")

    assert shell("schema", "--provider-url", RS).code == 78


def test_several_cached_providers_require_provider_url(shell: Shell) -> None:
    store_credential()
    CredentialCache().write("https://two.example", {"provider_url": "https://two.example"})

    result = shell("schema")

    assert result.code == 64
    assert "2 servers are connected" in result.err


def test_unwritable_cache_is_reported_before_requesting_access(
    shell: Shell, reference: ReferenceServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    result = shell("connect", RS, "--cache-root", str(tmp_path / "file"))

    assert result.code == 73
    assert "--cache-root" in result.err
    assert reference.sent == []


def test_token_is_sent_only_to_its_server(shell: Shell, reference: ReferenceServer) -> None:
    shell("connect", RS)

    def bearers(request: httpx2.Request) -> bool:
        return "authorization" in request.headers

    assert {request.url.host for request in filter(bearers, shell.requests)} == {"rs.example"}
