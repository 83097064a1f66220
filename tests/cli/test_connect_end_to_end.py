"""`pdpp connect` at this project's own server: the owner answers on the real page."""

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

from tests.cli.conftest import Said, Shell
from tests.owner.consent.client import ORIGIN, Asking
from tests.owner.consent.test_device import decide
from tests.world import World

FILE = ".pdpp/clients/127.0.0.1_8000.json"


@pytest.fixture
def site(shell: Shell, world: World) -> Shell:
    transport = httpx2.WSGITransport(app=WSGIHandler())

    def send(request: httpx2.Request) -> httpx2.Response:
        # Django's own test client, which the owner's browser is, connects it again each time.
        for moment in (request_started, request_finished):
            moment.disconnect(close_old_connections)
        return transport.handle_request(request)

    shell.send = send
    return shell


def connected(
    site: Shell, monkeypatch: pytest.MonkeyPatch, *words: str, allow: bool = True
) -> Said:
    """The owner answers while the command waits for the first time; the clock goes on meanwhile."""
    owner = Asking.registered(redirect_uris=[])
    answered: list[str] = []
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:

        def waiting(seconds: float) -> None:
            clock.shift(seconds + 1)
            printed = site.capsys.readouterr().err
            for code in re.findall(r"code: (\S+)", printed):
                decide(owner, code, allow=allow)
                answered.append(code)

        monkeypatch.setattr(time, "sleep", waiting)
        said = site("connect", ORIGIN, *words)
    assert len(answered) == 1
    return said


@pytest.mark.parametrize("words", [[], ["--device"]])
def test_what_the_owner_allows_can_be_read_and_given_back(
    site: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    said = connected(site, monkeypatch, *words)
    assert said.code == 0, said.err

    found = site("search", "deposit", "--json")
    with Path(FILE).open() as file:
        token = json.load(file)["credential"]["access_token"]
    ended = site("disconnect", "--json")
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", token)

    assert {hit["connection_id"] for hit in found.body["data"]} == {"cin_personal"}
    assert ended.body["revoked"] is True
    assert site("search", "deposit", "--provider-url", ORIGIN).code == 78


def test_the_owner_may_refuse(site: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    said = connected(site, monkeypatch, allow=False)

    assert said.code == 77
    assert "The owner has refused." in said.err
