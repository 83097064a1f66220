"""Whatever goes wrong is said in one typed message with an exit code, never in a traceback."""

import errno
import json
import re
import sys
from io import StringIO
from pathlib import Path

import httpx2
import pytest

from cli import errors
from cli.app import COMMANDS, built, run
from tests.cli.conftest import URL, Shell, answering
from tests.world import World


def test_a_refusal_names_its_code_its_parameter_and_the_next_step(pdpp: Shell) -> None:
    said = pdpp("records", "transactions", "--sort", "memo")

    assert said.code == 65
    assert said.out == ""
    assert "(invalid_sort)" in said.err
    assert "concerns: sort" in said.err
    assert "request: req_" in said.err


def test_an_ambiguous_stream_names_the_connections_as_options(pdpp: Shell) -> None:
    said = pdpp("records", "messages")

    assert said.code == 65
    assert "--connection cin_chat  Workspace" in said.err


def test_programs_get_the_error_of_the_server_as_json(pdpp: Shell) -> None:
    said = pdpp("records", "messages", "--json")

    assert said.out == ""
    assert said.error["code"] == "ambiguous_connection"
    assert said.error["retry_with"] == "connection_id"
    assert said.error["exit_code"] == said.code == 65


@pytest.mark.parametrize(
    ("words", "who", "code", "told"),
    [
        (["fetch", "cin_bank/transactions:nope"], "dora", 66, "not_found"),
        (["records", "threads"], "bob", 77, "grant_stream_not_allowed"),
        (["records", "no_such_stream"], "bob", 66, "not_found"),
        (["streams"], "pdpp_at_unknown", 78, "authentication_error"),
    ],
)
def test_the_exit_code_follows_the_refusal(
    pdpp: Shell, world: World, monkeypatch: pytest.MonkeyPatch,
    words: list[str], who: str, code: int, told: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", world.tokens.get(who, who))

    said = pdpp(*words)

    assert (said.code, f"({told})" in said.err) == (code, True), said.err


@pytest.fixture
def connected(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at_secret")
    monkeypatch.setenv("PDPP_PROVIDER_URL", URL)
    return shell


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (httpx2.ConnectError("no route to host"), 69, "no route to host"),
        (httpx2.ReadTimeout("slow"), 69, "did not answer in time"),
        (httpx2.Response(502, html="<h1>Bad gateway</h1>"), 69, "http_502"),
        (httpx2.Response(200, html="<h1>Sign in</h1>"), 76, "not with JSON"),
        (httpx2.Response(301, headers={"location": "https://x.example"}), 76, "final URL"),
        (httpx2.Response(429, json={"error": {"code": "rate_limit_exceeded"}}), 75, "rate_limit"),
        (httpx2.Response(403, json={"error": {"code": "grant_revoked"}}), 78, "grant_revoked"),
        (httpx2.Response(400, json=["odd"]), 65, "http_400"),
    ],
)
def test_whatever_the_network_does_is_said_and_the_token_never_shown(
    connected: Shell, answer: httpx2.Response | Exception, code: int, told: str
) -> None:
    def send(request: httpx2.Request) -> httpx2.Response:
        if isinstance(answer, Exception):
            raise answer
        answer.request = request
        return answer

    connected.send = send

    for words in (["streams"], ["search", "x", "--json"]):
        said = connected(*words)
        assert said.code == code
        assert told in said.err
        assert "Traceback" not in said.err
        assert "at_secret" not in said.out + said.err


def test_a_fault_of_ours_is_no_traceback_either(connected: Shell) -> None:
    connected.send = answering({"/v1/streams": {"data": "not a list of rows"}})

    said = connected("streams")

    assert said.code == 70
    assert "This should not happen" in said.err


def test_whoever_reads_no_further_has_found_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def enough() -> None:
        raise BrokenPipeError(errno.EPIPE, "as of  pdpp enough | head")

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, StringIO())

    assert run(built(enough), ["enough"]) == errors.OK


@pytest.mark.parametrize(
    "words",
    [
        ["search"],
        ["nonsense"],
        ["records", "messages", "--limit", "0"],
        ["records", "messages", "--filter", "nonsense"],
        ["records", "messages", "--param", "nonsense"],
        ["fetch", "no-id"],
        ["field", "a:b"],
        ["fetch", "cin_a/b:c", "--connection", "cin_b"],
        ["streams", "--provider-url", "ftp://x"],
    ],
)
def test_a_wrong_command_line_is_not_sent(connected: Shell, words: list[str]) -> None:
    said = connected(*words)

    assert (said.code, connected.asked) == (64, [])
    assert json.loads(connected(*words, "--json").err)["error"]["exit_code"] == 64


def test_without_a_provider_it_says_how_to_get_one(shell: Shell) -> None:
    said = shell("streams")

    assert said.code == 64
    assert "pdpp connect URL" in said.err


def test_help_lists_every_exit_code(shell: Shell) -> None:
    told = shell("--help").out

    assert all(f"{code:>3}  {meaning}" in told for code, meaning in errors.MEANINGS.items())
    assert shell().out == told


def test_the_documentation_has_the_same_exit_codes() -> None:
    told = (Path(__file__).parents[2] / "docs/cli.md").read_text()

    assert [f"| {code} | {meaning} |" in told for code, meaning in errors.MEANINGS.items()] == [
        True
    ] * len(errors.MEANINGS)


def test_the_documentation_names_every_command_and_no_other() -> None:
    told = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    named = set(re.findall(r"pdpp ([a-z]+)\b", told))

    assert named == {each.__name__ for each in COMMANDS} | {"mcp"}
