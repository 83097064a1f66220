"""`pdpp connect` against the project's server, where the owner decides on the device page."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
import time_machine
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from tests.cli.conftest import CommandResult, Shell
from tests.owner.consent.client import ORIGIN, Asking
from tests.owner.consent.test_device import decide
from tests.world import World

FILE = "config/pdpp/clients/127.0.0.1_8000.json"


@pytest.fixture
def site(shell: Shell, world: World) -> Shell:
    transport = httpx2.WSGITransport(app=WSGIHandler())

    def send(request: httpx2.Request) -> httpx2.Response:
        # Django's test client, which acts as the owner's browser, reconnects this handler each time.
        for signal in (request_started, request_finished):
            signal.disconnect(close_old_connections)
        return transport.handle_request(request)

    shell.send = send
    return shell


def connect(
    site: Shell, monkeypatch: pytest.MonkeyPatch, *words: str, allow: bool = True
) -> CommandResult:
    """Run connect while the owner decides during its first wait. Sleep advances the clock."""
    owner = Asking.registered(redirect_uris=[])
    answered: list[str] = []
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:

        def decide_during_sleep(seconds: float) -> None:
            clock.shift(seconds + 1)
            printed = site.capsys.readouterr().err
            for code in re.findall(r"code: (\S+)", printed):
                decide(owner, code, allow=allow)
                answered.append(code)

        monkeypatch.setattr(time, "sleep", decide_during_sleep)
        result = site("connect", ORIGIN, *words)
    assert len(answered) == 1
    return result


@pytest.mark.parametrize("words", [[], ["--device"]])
def test_approved_access_can_search_and_be_revoked(
    site: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    result = connect(site, monkeypatch, *words)
    assert result.code == 0, result.err

    search = site("search", "deposit", "--json")
    with Path(FILE).open() as file:
        token = json.load(file)["credential"]["access_token"]
    ended = site("disconnect", "--json")
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", token)

    assert {hit["connection_id"] for hit in search.body["data"]} == {"cin_personal"}
    assert ended.body["revoked"] is True
    assert site("search", "deposit", "--provider-url", ORIGIN).code == 78


def test_denied_request_reports_the_denial(site: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    result = connect(site, monkeypatch, allow=False)

    assert result.code == 77
    assert "The owner denied the request." in result.err
