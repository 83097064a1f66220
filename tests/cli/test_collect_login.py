"""`pdpp collect login` gets the token that `pdpp collect` uses, and no other."""

import json
import re
import stat
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine

from tests.cli.conftest import CommandResult, Shell
from tests.cli.reference_server import RS, ReferenceServer
from tests.cli.test_collect import CONNECTOR, record
from tests.cli.test_connect import reference as reference
from tests.cli.test_connect_end_to_end import site as site
from tests.owner.consent.client import ORIGIN, Asking, pressed
from tests.owner.consent.test_collectors import allow, the_form
from tests.world import MAIL, WORK, World

OFFERED = {"pdpp_device_authorization_profiles_supported": [{"scope": "pdpp:collect"}]}
TOKEN = {"access_token": "pdpp_col_x", "token_type": "Bearer", "scope": "pdpp:collect"}
FILE = Path("config/pdpp/collectors/rs.example.json")


def login(site: Shell, monkeypatch: pytest.MonkeyPatch, *, connection: str = "") -> CommandResult:
    """Log in while the owner allows a connection during the first wait, or denies the request."""
    owner = Asking.registered(redirect_uris=[])
    with (
        time_machine.travel(datetime.now(UTC), tick=False) as clock,
        monkeypatch.context() as patched,
    ):

        def decide_during_sleep(seconds: float) -> None:
            clock.shift(seconds + 1)
            [code] = re.findall(r"code: (\S+)", site.capsys.readouterr().err)
            if connection:
                allow(owner, code, connection)
            else:
                owner.owner.post("/device", pressed(the_form(owner, code), "deny"))

        patched.setattr(time, "sleep", decide_during_sleep)
        return site("collect", "login", ORIGIN)


def collect(site: Shell, *options: str) -> CommandResult:
    Path("mail.json").write_text(json.dumps(MAIL))
    Path("lines").write_text(record("l1"))
    return site("collect", *options, "mail.json", "--", sys.executable, str(CONNECTOR), "lines")


def test_collect_uses_the_token_of_its_sign_in(
    site: Shell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = collect(site, "--provider-url", ORIGIN)
    assert before.code == 78
    assert f"pdpp collect login {ORIGIN}" in before.err

    result = login(site, monkeypatch, connection="Work mail")

    assert result.code == 0, result.err
    stored = json.loads(Path("config/pdpp/collectors/127.0.0.1_8000.json").read_text())
    token = stored["credential"]["access_token"]
    assert token not in result.out + result.err
    run = collect(site, "--json")
    assert run.code == 0, run.err
    assert run.body["records_created"] == 1
    assert world.get("/v1/streams/messages/records/l1", "alice", connection_id=WORK).status == 200

    # It is no credential of the commands that read, and does not stand in for another connection.
    assert site("search", "deposit", "--provider-url", ORIGIN).code == 78
    elsewhere = collect(site, "--connection", "cin_personal")
    assert (elsewhere.code, "connection_not_found" in elsewhere.err) == (66, True)

    monkeypatch.setenv("PDPP_COLLECTOR_TOKEN", "pdpp_col_owner_unknown")
    revoked = collect(site)
    assert (revoked.code, f"next: pdpp collect login {ORIGIN}" in revoked.err) == (78, True)
    monkeypatch.delenv("PDPP_COLLECTOR_TOKEN")
    assert collect(site).code == 0


def test_denied_sign_in_stores_nothing(
    site: Shell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = login(site, monkeypatch)

    assert result.code == 77
    assert "The owner denied the request." in result.err
    assert not Path("config/pdpp/collectors").exists() or not list(
        Path("config/pdpp/collectors").iterdir()
    )


def test_sign_in_asks_for_a_collector_and_keeps_the_token_private(
    shell: Shell, reference: ReferenceServer
) -> None:
    reference.server, reference.decisions = OFFERED, [(200, TOKEN)]

    result = shell("collect", "login", "rs.example", "--name", "Gmail on the laptop")

    assert result.code == 0, result.err
    assert "ABCD-EFGH" in result.err
    assert reference.sent[:2] == [
        (
            "/oauth/register",
            {"client_name": "Gmail on the laptop", "token_endpoint_auth_method": "none"},
        ),
        (
            "/oauth/device_authorization",
            {"client_id": "cli_9", "resource": RS, "scope": "pdpp:collect"},
        ),
    ]
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert stat.S_IMODE(FILE.parent.stat().st_mode) == 0o700
    assert "pdpp_col_x" not in result.out + result.err


@pytest.mark.parametrize("profiles", [None, [{"profile": "grant_scoped_mcp"}], "odd"])
def test_server_without_this_sign_in_is_asked_nothing(
    shell: Shell, reference: ReferenceServer, profiles: Any
) -> None:
    reference.server = {"pdpp_device_authorization_profiles_supported": profiles}

    result = shell("collect", "login", RS)

    assert (result.code, "offers no sign-in for collectors" in result.err) == (76, True)
    assert "PDPP_COLLECTOR_TOKEN" in result.err
    assert "/oauth/device_authorization" not in [path for path, _ in reference.sent]


@pytest.mark.parametrize(
    ("decision", "code", "expected"),
    [
        ((400, {"error": "access_denied"}), 77, "(access_denied)"),
        ((400, {"error": "expired_token"}), 75, "(expired_token)"),
        ((200, TOKEN | {"scope": "pdpp:read"}), 76, "not a collector's"),
        ((200, {"access_token": "at_x"}), 76, "not a collector's"),
        ((200, TOKEN | {"access_token": "pdpp_own_x"}), 77, "owner credential"),
    ],
)
def test_other_answers_store_nothing(
    shell: Shell, reference: ReferenceServer, decision: Any, code: int, expected: str
) -> None:
    reference.server, reference.decisions = OFFERED, [decision]

    result = shell("collect", "login", RS)

    assert (result.code, expected in result.err) == (code, True), result.err
    assert not FILE.exists()
