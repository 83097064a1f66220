"""`pdpp search` shows matches and the commands that read more."""

import shlex
import subprocess

import pytest

from cli.output import Output, table
from tests.cli.conftest import Shell, answering
from tests.scenarios import scenario
from tests.world import WORK, World


def commands(printed: str) -> list[list[str]]:
    """Return the arguments of the `pdpp` command lines in the output."""
    lines = (line.strip() for line in printed.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("pdpp ")]


@scenario("B10")
def test_printed_commands_read_the_match_and_the_record(pdpp: Shell) -> None:
    result = pdpp("search", "deposit", "euros")

    assert result.code == 0
    assert "«deposit»" in result.out
    field, fetch = commands(result.out)[:2]
    assert field[:3] == ["field", "cin_personal/messages:m1", "body_text"]
    assert "the deposit" in pdpp(*field).out.lower()
    assert fetch == ["fetch", "cin_personal/messages:m1"]
    assert "2,340 euros" in pdpp(*fetch).out


@scenario("B10")
def test_json_search_adds_the_command_to_excerpts(pdpp: Shell) -> None:
    result = pdpp("search", "deposit", "euros", "--json")

    (hit,) = result.body["data"]
    (excerpt,) = hit["evidence_excerpts"]
    assert hit["record_key"] == "m1"
    assert "2,340" in pdpp(*shlex.split(excerpt["command"])[1:]).out
    assert result.err == ""


def test_printed_commands_repeat_the_options(pdpp: Shell) -> None:
    result = pdpp("search", "budget", "--provider-url", "http://testserver/")

    assert all(
        words[-2:] == ["--provider-url", "http://testserver/"] for words in commands(result.out)
    )


def test_unusual_key_is_printed_as_a_usable_uri(pdpp: Shell, world: World) -> None:
    world.put(("cin_personal", "messages", {"id": "a/b:..'c", "subject": "Umbrella stand"}))

    lines = commands(pdpp("search", "umbrella").out)

    assert lines[0][1].startswith("pdpp://record/")
    assert all("Umbrella stand" in pdpp(*words).out for words in lines)


def test_search_is_narrowed_by_stream_and_connection(pdpp: Shell) -> None:
    everywhere = pdpp("search", "budget", "--json").body["data"]
    one = pdpp("search", "budget", "--connection", "cin_chat", "--json").body["data"]

    assert {hit["connection_id"] for hit in everywhere} == {"cin_work", "cin_chat"}
    assert {hit["connection_id"] for hit in one} == {"cin_chat"}
    assert pdpp("search", "budget", "--stream", "transactions", "--json").body["data"] == []


def test_cursor_option_shows_the_next_page(pdpp: Shell) -> None:
    first = pdpp("search", "lease OR budget", "--limit", "1")
    cursor = first.out.split("--cursor ")[1].split()[0]
    second = pdpp("search", "lease OR budget", "--limit", "1", "--cursor", cursor)

    assert "1 shown of 5; there are more" in first.out
    assert commands(first.out)[-1] != commands(second.out)[-1]


def test_search_without_hits_prints_a_hint(pdpp: Shell) -> None:
    result = pdpp("search", "xylophone")

    assert result.code == 0
    assert "0 shown of 0" in result.out
    assert "Try fewer or other words" in result.out


def test_excerpt_without_offset_uses_find_option(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at_public")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    excerpt = {"field_path": "body", "preview_text": "signed the <mark>lease</mark> today"}
    hit = {"stream": "messages", "record_key": "m_9", "evidence_excerpts": [excerpt]}
    shell.send = answering({"/v1/search": {"object": "list", "has_more": False, "data": [hit]}})

    result = shell("search", "lease")

    assert commands(result.out)[0] == ["field", "messages:m_9", "body", "--find", "lease"]


def test_control_characters_in_tables_are_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output(as_json=False).result({}, [*table(["KIND\x1b[2J"], []), "from \u202e to"])

    assert capsys.readouterr().out == "KIND\\u001b[2J\nfrom \\u202e to\n"


def test_printed_command_quotes_invisible_characters_of_a_key(pdpp: Shell, world: World) -> None:
    key = "a\u202e'b \u2066c"
    world.put(("cin_personal", "messages", {"id": key, "subject": "A zebra"}))

    result = pdpp("search", "zebra").out.splitlines()

    command = next(line.strip() for line in result if " fetch " in line)
    assert command.isprintable()
    split = ["bash", "-c", f"pdpp() {{ printf '%s\\0' \"$@\"; }}; {command}"]
    words = subprocess.run(split, capture_output=True, check=True).stdout.decode().split("\0")
    assert words[:-1] == ["fetch", f"cin_personal/messages:{key}"]


def test_control_characters_of_a_record_are_escaped(pdpp: Shell, world: World) -> None:
    world.put(("cin_personal", "messages", {"id": "esc", "subject": "Pwn \x1b[2J zebra\u202e"}))

    for words in (
        ["search", "zebra"],
        ["fetch", "cin_personal/messages:esc"],
        ["search", "zebra", "--json"],
    ):
        printed = pdpp(*words).out
        assert "zebra" in printed
        assert "\x1b" not in printed
        assert "\u202e" not in printed


def test_preview_shows_characters_not_their_entities(pdpp: Shell, world: World) -> None:
    world.put((WORK, "messages", {"id": "amp", "received_at": "2026-06-01T00:00:00Z",
        "body_text": "the quagga &amp; <mark>zoo</mark>"}))  # fmt: skip

    assert "the «quagga» &amp; <mark>zoo</mark>" in pdpp("search", "quagga").out
