"""``manage.py mcp_stdio`` speaks for one agent's token, and never near an owner's credential."""

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from cli import errors
from evidence.access.grants import pause_client
from pdpp_site.management.commands.mcp_stdio import require_valid_token
from tests.pdpp_site.installation import START_SECONDS, Installation, Said, installed
from tests.world import World

# Makes the world of the tests in the installation's own database and prints Dora's token.
MAKE_WORLD = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests.world import World
print("TOKEN", World.build().tokens["dora@mcp"])
"""


@pytest.fixture
def installation() -> Iterator[Installation]:
    with installed() as installation:
        yield installation


def converse(process: "subprocess.Popen[str]", *messages: Any) -> tuple[Said, list[Any]]:
    """Each request is answered before the next is sent; what is left over stands in ``Said``."""
    assert process.stdin is not None
    assert process.stdout is not None
    answers = []
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        if "id" in message:
            answers.append(json.loads(process.stdout.readline()))
    out, err = process.communicate(timeout=START_SECONDS)
    return Said(process.returncode, out, err), answers


def refused(monkeypatch: pytest.MonkeyPatch, **environment: str) -> CommandError:
    monkeypatch.delenv("PDPP_MCP_TOKEN", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CommandError) as caught:
        call_command("mcp_stdio")
    return caught.value


@pytest.mark.slow
def test_only_the_protocol_is_on_standard_output(installation: Installation) -> None:
    made = installation.say("shell", "-v", "0", "-c", MAKE_WORLD)
    token = made.out.partition("TOKEN ")[2].strip()
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    call = {"name": "search", "arguments": {"q": "budget deck"}}

    said, answers = converse(
        installation.manage("mcp-stdio", PDPP_MCP_TOKEN=token),
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    )

    assert said.code == 0, said.err
    assert said.out == ""
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "cin_chat/messages:c1" in answers[1]["result"]["content"][0]["text"]
    assert token not in said.out + said.err
    assert not installation.database_runs()


@pytest.mark.slow
def test_a_signal_ends_it_while_standard_input_is_open(installation: Installation) -> None:
    made = installation.say("shell", "-v", "0", "-c", MAKE_WORLD)
    token = made.out.partition("TOKEN ")[2].strip()
    process = installation.manage("mcp-stdio", PDPP_MCP_TOKEN=token)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert process.stdout.readline()

    process.terminate()

    assert process.wait(START_SECONDS) == 128 + signal.SIGTERM
    process.communicate()
    assert not installation.database_runs()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, errors.NOT_CONNECTED),
        ({"PDPP_MCP_TOKEN": "pdpp_at_unknown"}, errors.NOT_CONNECTED),
        ({"PDPP_MCP_TOKEN": "pdpp_own_anything"}, errors.NO_PERMISSION),
        ({"PDPP_OWNER_TOKEN": "whatever"}, errors.NO_PERMISSION),
        ({"PDPP_OWNER_SESSION": "whatever"}, errors.NO_PERMISSION),
        ({"SOMETHING_ELSE": "Bearer pdpp_own_anything"}, errors.NO_PERMISSION),
    ],
)
def test_without_a_usable_token_it_does_not_start(
    environment: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = refused(monkeypatch, **environment)

    assert refusal.returncode == code
    assert "anything" not in str(refusal)
    assert "unknown" not in str(refusal)


@pytest.mark.django_db
def test_an_owner_token_is_refused_even_with_a_valid_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World.build()

    refusal = refused(
        monkeypatch, PDPP_MCP_TOKEN=world.tokens["bob@mcp"], NOTES=world.tokens["alice"]
    )

    assert refusal.returncode == errors.NO_PERMISSION
    assert "NOTES" in str(refusal)


@pytest.mark.django_db
def test_it_starts_while_the_grant_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.build()
    pause_client(world.packages["bob"].client_id, now=timezone.now())

    require_valid_token(world.tokens["bob@mcp"])


@pytest.mark.django_db
def test_a_token_for_rest_is_none_for_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = refused(monkeypatch, PDPP_MCP_TOKEN=World.build().tokens["bob"])

    assert refusal.returncode == errors.NOT_CONNECTED
