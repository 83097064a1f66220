"""Errors are printed as one message with an exit code and without a traceback."""

import errno
import json
import re
import sys
from io import StringIO
from pathlib import Path

import httpx2
import pytest

from cli import errors, session
from cli.app import COMMANDS, build_app, run
from cli.credentials import CredentialCache
from tests.cli.conftest import URL, Shell, answering
from tests.world import World


def test_error_shows_code_parameter_and_request(pdpp: Shell) -> None:
    result = pdpp("records", "transactions", "--sort", "memo")

    assert result.code == 65
    assert result.out == ""
    assert "(invalid_sort)" in result.err
    assert "parameter: sort" in result.err
    assert "request: req_" in result.err


def test_ambiguous_stream_lists_connection_options(pdpp: Shell) -> None:
    result = pdpp("records", "messages")

    assert result.code == 65
    assert "--connection cin_chat  Workspace (workspace)" in result.err


def test_person_is_asked_which_connection_is_meant(
    pdpp: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", StringIO("0\nwork\n3\n"))

    result = pdpp("records", "messages")

    assert result.code == 0
    assert "  2  cin_work  Work mail (mail)\n" in result.err
    assert result.err.count("Type a number from 1 to 3.") == 2
    assert "cin_chat/messages:" in result.out
    assert "cin_work/messages:" not in result.out


def test_question_that_ends_without_an_answer_interrupts(
    pdpp: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", StringIO())

    assert pdpp("records", "messages").code == 130


@pytest.mark.parametrize(
    "words",
    [
        ("records", "messages", "--after", "2026-01-01"),
        ("field", "cin_a/messages:m1", "body", "--quote", "a lease"),
        ("field", "cin_a/messages:m1", "body", "--find", "a", "--occurrence", "2"),
        ("search", "lease", "--match", "exact"),
    ],
)
def test_option_that_the_server_would_ignore_is_refused(
    shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_PROVIDER_URL", URL)
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    shell.send = answering({"/.well-known/oauth-protected-resource": {"resource": URL}})

    result = shell(*words, "--json")

    assert (result.code, result.error["code"]) == (65, "unsupported_parameter")
    assert len(shell.requests) == 1


def test_credential_is_found_from_any_folder(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell.send = answering({"/v1/streams": {"data": []}})
    CredentialCache().write(URL, {"provider_url": URL, "credential": {"access_token": "at"}})
    monkeypatch.chdir((tmp_path / "elsewhere").mkdir() or tmp_path / "elsewhere")

    assert shell("streams").code == 0


def test_credential_of_the_working_folder_is_not_used_unless_asked_for(shell: Shell) -> None:
    CredentialCache(Path(".pdpp")).write(
        "https://stranger.example", {"provider_url": "https://stranger.example"}
    )

    result = shell("search", "secret")

    assert result.code == 64
    assert "--cache-root .pdpp" in result.err
    assert shell.requests == []


def test_json_mode_prints_server_errors_as_json(pdpp: Shell) -> None:
    result = pdpp("records", "messages", "--json")

    assert result.out == ""
    assert result.error["code"] == "ambiguous_connection"
    assert result.error["retry_with"] == "connection_id"
    assert result.error["exit_code"] == result.code == 65


@pytest.mark.parametrize(
    ("words", "who", "code", "expected"),
    [
        (["fetch", "cin_bank/transactions:nope"], "dora", 66, "not_found"),
        (["records", "threads"], "bob", 77, "grant_stream_not_allowed"),
        (["records", "no_such_stream"], "bob", 66, "not_found"),
        (["streams"], "pdpp_at_unknown", 78, "authentication_error"),
    ],
)
def test_exit_code_matches_the_error(
    pdpp: Shell, world: World, monkeypatch: pytest.MonkeyPatch,
    words: list[str], who: str, code: int, expected: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", world.tokens.get(who, who))

    result = pdpp(*words)

    assert (result.code, f"({expected})" in result.err) == (code, True), result.err


@pytest.fixture
def connected(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at_secret")
    monkeypatch.setenv("PDPP_PROVIDER_URL", URL)
    return shell


@pytest.mark.parametrize(
    ("answer", "code", "expected"),
    [
        (httpx2.ConnectError("no route to host"), 69, "no route to host"),
        (httpx2.ReadTimeout("slow"), 69, "timed out"),
        (httpx2.Response(502, html="<h1>Bad gateway</h1>"), 69, "http_502"),
        (httpx2.Response(200, html="<h1>Sign in</h1>"), 76, "not JSON"),
        (httpx2.Response(301, headers={"location": "https://x.example"}), 76, "final https URL"),
        (httpx2.Response(429, json={"error": {"code": "rate_limit_exceeded"}}), 75, "rate_limit"),
        (httpx2.Response(403, json={"error": {"code": "grant_revoked"}}), 78, "grant_revoked"),
        (httpx2.Response(400, json=["odd"]), 65, "http_400"),
    ],
)
def test_network_errors_are_reported_without_the_token(
    connected: Shell, answer: httpx2.Response | Exception, code: int, expected: str
) -> None:
    def send(request: httpx2.Request) -> httpx2.Response:
        if isinstance(answer, Exception):
            raise answer
        answer.request = request
        return answer

    connected.send = send

    for words in (["streams"], ["search", "x", "--json"]):
        result = connected(*words)
        assert result.code == code
        assert expected in result.err
        assert "Traceback" not in result.err
        assert "at_secret" not in result.out + result.err


def test_internal_errors_print_no_traceback(connected: Shell) -> None:
    connected.send = answering({"/v1/streams": {"data": "not a list of rows"}})

    result = connected("streams")

    assert result.code == 70
    assert "Internal error" in result.err


def test_closed_pipe_is_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed_pipe() -> None:
        raise BrokenPipeError(errno.EPIPE, "as of  pdpp … | head")

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, StringIO())

    assert run(build_app(closed_pipe), ["closed_pipe"]) == errors.OK


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
def test_usage_errors_send_no_request(connected: Shell, words: list[str]) -> None:
    result = connected(*words)

    assert (result.code, connected.requests) == (64, [])
    assert json.loads(connected(*words, "--json").err)["error"]["exit_code"] == 64


def test_missing_provider_suggests_connect(shell: Shell) -> None:
    result = shell("streams")

    assert result.code == 64
    assert "pdpp connect URL" in result.err


def test_help_lists_every_exit_code(shell: Shell) -> None:
    expected = shell("--help").out

    assert all(
        f"{code:>3}  {meaning}" in expected for code, meaning in errors.EXIT_CODE_MEANINGS.items()
    )
    assert shell().out == expected


def test_documentation_lists_the_same_exit_codes() -> None:
    expected = (Path(__file__).parents[2] / "docs/cli.md").read_text()

    assert [
        f"| {code} | {meaning} |" in expected for code, meaning in errors.EXIT_CODE_MEANINGS.items()
    ] == [True] * len(errors.EXIT_CODE_MEANINGS)


def test_documentation_names_exactly_the_commands() -> None:
    expected = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    named = set(re.findall(r"pdpp ([a-z]+)\b", expected))

    assert named == {command.__name__ for command in COMMANDS} | {"collect", "mcp"}
