"""`pdpp connect` and `pdpp disconnect`, against what the public reference sends (contract 1.8)."""

import json
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.credential_cache import Cache
from tests.cli.conftest import Shell
from tests.cli.reference import APPROVED, AS, RS, WAITING, Reference
from tests.scenarios import scenario

FILE = Path(".pdpp/clients/rs.example.json")


@pytest.fixture
def reference(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Reference:
    """The server, and a clock that moves when somebody waits."""
    reference = shell.send = Reference()
    now = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return reference


def entry() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(FILE.read_text())
    return read


def test_the_owner_is_sent_to_the_page_and_the_credential_kept(
    shell: Shell, reference: Reference
) -> None:
    said = shell("connect", "rs.example")

    assert said.code == 0, said.err
    assert f"{AS}/consent?x=1" in said.err
    kept = entry()
    assert kept.pop("created_at")
    assert kept == {
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
    assert "at_x" not in said.out + said.err
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


def test_the_cache_is_for_the_owner_of_the_machine_alone(
    shell: Shell, reference: Reference
) -> None:
    shell("connect", RS)

    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert stat.S_IMODE(FILE.parent.stat().st_mode) == 0o700
    assert (FILE.parent.parent / ".gitignore").read_text() == "*\n"
    assert [path.name for path in FILE.parent.iterdir()] == ["rs.example.json"]


def test_a_client_that_is_known_is_not_registered_again(shell: Shell, reference: Reference) -> None:
    shell("connect", RS)
    reference.sent.clear()
    reference.decisions = [APPROVED]

    assert shell("connect", RS).code == 0
    assert [path for path, _ in reference.sent] == ["/agent-connect", "/agent-connect/agc_1/token"]
    assert reference.sent[0][1]["client_id"] == "cli_9"


def test_without_a_browser_the_standard_device_flow_shows_a_code(
    shell: Shell, reference: Reference
) -> None:
    reference.decisions = [
        (400, {"error": "authorization_pending"}),
        (400, {"error": "slow_down"}),
        (200, {"access_token": "at_d", "expires_in": 600, "refresh_token": "rt"}),
    ]

    said = shell("connect", RS, "--device", "--json")

    assert said.code == 0, said.err
    assert "ABCD-EFGH" in said.err
    assert said.body["provider_url"] == RS
    assert "at_d" not in said.out
    assert [sent.get("grant_type") for _, sent in reference.sent[-3:]] == [
        "urn:ietf:params:oauth:grant-type:device_code"
    ] * 3
    assert entry()["credential"]["refresh_token"] == "rt"


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
def test_the_start_is_found_wherever_a_server_names_it(
    shell: Shell, reference: Reference, protected: Any, server: Any, path: str
) -> None:
    reference.protected, reference.server = protected, server
    reference.decisions = [APPROVED]

    assert shell("connect", RS).code == 0
    assert path in [where for where, _ in reference.sent]


def test_a_server_that_registers_nobody_may_know_a_public_client(
    shell: Shell, reference: Reference
) -> None:
    known = [{"client_id": "public_1", "client_name": "CLI"}]
    reference.server = {
        "registration_endpoint": None,
        "pdpp_pre_registered_public_clients": known,
    }

    assert shell("connect", RS).code == 0
    assert entry()["client"]["client_id"] == "public_1"


@pytest.mark.parametrize(
    ("decision", "code", "told"),
    [
        ((403, {"error": "access_denied"}), 77, "(access_denied)"),
        ((400, {"error": "expired_token"}), 75, "(expired_token)"),
        ((403, {"error": "insufficient_scope"}), 77, "(insufficient_scope)"),
        ((401, {"error": "invalid_grant"}), 78, "(invalid_grant)"),
        ((418, {"error": "odd", "error_description": "Odd."}), 76, "(connect_request_failed)"),
        ((503, {}), 69, "(connect_request_failed)"),
        ((200, {"status": "approved"}), 76, "(connect_request_failed)"),
        (WAITING, 75, "Nobody has approved in time"),
    ],
)
def test_every_other_end_is_said_and_nothing_is_kept(
    shell: Shell, reference: Reference, decision: Any, code: int, told: str
) -> None:
    reference.decisions = [WAITING, decision]

    said = shell("connect", RS)

    assert said.code == code, said.err
    assert told in said.err
    assert not FILE.exists()


@pytest.mark.parametrize(
    ("protected", "server", "code", "told"),
    [
        ({"resource": "https://other.example"}, {}, 76, "pdpp connect https://other.example"),
        ({}, {"issuer": "https://evil.example"}, 76, "discovery_mismatch"),
        ({}, {"issuer": None}, 76, "discovery_mismatch"),
        ({}, {"agent_connect_endpoint": None, "device_authorization_endpoint": None}, 76, "no_way"),
    ],
)
def test_documents_that_contradict_each_other_end_it(
    shell: Shell, reference: Reference, protected: Any, server: Any, code: int, told: str
) -> None:
    reference.protected, reference.server = protected, server

    said = shell("connect", RS)

    assert said.code == code
    assert told in said.err
    assert not FILE.exists()


@scenario("C6")
def test_an_owners_token_is_never_taken(shell: Shell, reference: Reference) -> None:
    reference.protected = {"pdpp_agent_discovery": {"cli": {"no_owner_token": False}}}
    announced = shell("connect", RS)
    reference.protected = {}
    reference.schema = (200, {"bearer": {"token_kind": "owner"}})
    told = shell("connect", RS)
    reference.decisions = [(200, {"access_token": "pdpp_own_x"})]
    recognised = shell("connect", RS)

    assert (announced.code, told.code, recognised.code) == (77, 77, 77)
    assert not FILE.exists()


def test_a_token_that_reads_nothing_is_not_kept(shell: Shell, reference: Reference) -> None:
    reference.schema = (403, {"error": {"code": "permission_error", "message": "No."}})

    said = shell("connect", RS)

    assert (said.code, "(insufficient_scope)" in said.err) == (77, True)
    assert not FILE.exists()


def test_without_a_network_it_says_so(shell: Shell) -> None:
    assert shell("connect", RS).code == 69


def test_the_cached_credential_is_used_without_naming_the_server(
    shell: Shell, reference: Reference
) -> None:
    shell("connect", RS)
    shell.asked.clear()

    assert shell("schema").code == 0
    assert shell.asked[0].headers["authorization"] == "Bearer at_x"
    assert shell.asked[0].url.host == "rs.example"


def keep(**credential: Any) -> None:
    Cache().write(
        RS,
        {
            "provider_url": RS,
            "authorization_server": AS,
            "client": {"client_id": "cli_9"},
            "token_endpoint": f"{AS}/oauth/token",
            "credential": {"access_token": "at_old", **credential},
        },
    )


def ago(**time: int) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


def test_an_ended_token_is_renewed_once_and_kept(shell: Shell, reference: Reference) -> None:
    keep(expires_at=ago(minutes=1), refresh_token="rt_1", grant_id="grt_3")
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
    kept = entry()["credential"]
    assert (kept["access_token"], kept["refresh_token"], kept["grant_id"]) == (
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
def test_what_cannot_be_renewed_says_to_connect_again(
    shell: Shell, reference: Reference, credential: Any, decision: Any, code: int
) -> None:
    keep(expires_at=ago(hours=1), **credential)
    reference.decisions = [decision]

    said = shell("schema")

    assert said.code == code
    assert f"pdpp connect {RS}" in said.err


def test_disconnect_gives_the_tokens_back_and_forgets_them(
    shell: Shell, reference: Reference
) -> None:
    reference.server = {"revocation_endpoint": f"{AS}/oauth/revoke"}
    keep(refresh_token="rt_1")

    said = shell("disconnect", "--json")

    assert said.body == {"object": "disconnected", "provider_url": RS, "revoked": True}
    assert [sent["token"] for _, sent in reference.sent] == ["rt_1", "at_old"]
    assert not FILE.exists()
    assert shell("disconnect", "--provider-url", RS).code == 78


def test_disconnect_where_the_server_takes_nothing_back(shell: Shell, reference: Reference) -> None:
    keep()

    said = shell("disconnect")

    assert said.code == 0
    assert "owner can revoke" in said.err
    assert not FILE.exists()


def test_disconnect_without_a_network_keeps_the_token_unless_told(shell: Shell) -> None:
    keep()

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
def test_each_host_has_its_own_file(shell: Shell, url: str, name: str) -> None:
    from cli.http_client import normalized

    assert Cache().path(normalized(url)).name == name


def test_a_damaged_cache_is_no_credential(shell: Shell) -> None:
    keep()
    FILE.write_text("{half")

    assert shell("schema", "--provider-url", RS).code == 78


def test_several_connections_have_to_be_told_apart(shell: Shell) -> None:
    keep()
    Cache().write("https://two.example", {"provider_url": "https://two.example"})

    said = shell("schema")

    assert said.code == 64
    assert "2 providers are connected" in said.err


def test_a_cache_that_cannot_be_written_is_said_before_the_token_is_lost(
    shell: Shell, reference: Reference, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    said = shell("connect", RS, "--cache-root", str(tmp_path / "file"))

    assert said.code == 73
    assert "--cache-root" in said.err
    assert reference.sent == []


def test_the_token_goes_to_nobody_else(shell: Shell, reference: Reference) -> None:
    shell("connect", RS)

    def bearers(request: httpx2.Request) -> bool:
        return "authorization" in request.headers

    assert {request.url.host for request in filter(bearers, shell.asked)} == {"rs.example"}
