"""`pdpp search` shows evidence and the command that reads on."""

import shlex
import subprocess

import pytest

from cli.output import Output, table
from tests.cli.conftest import Shell, answering
from tests.scenarios import scenario
from tests.world import World


def commands(printed: str) -> list[list[str]]:
    """The command lines in what was printed."""
    lines = (line.strip() for line in printed.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("pdpp ")]


@scenario("B10")
def test_the_line_below_a_hit_reads_the_field_around_the_match(pdpp: Shell) -> None:
    said = pdpp("search", "deposit", "euros")

    assert said.code == 0
    assert "«deposit»" in said.out
    field, fetch = commands(said.out)[:2]
    assert field[:3] == ["field", "cin_personal/messages:m1", "body_text"]
    assert "the deposit" in pdpp(*field).out.lower()
    assert fetch == ["fetch", "cin_personal/messages:m1"]
    assert "2,340 euros" in pdpp(*fetch).out


@scenario("B10")
def test_programs_get_the_answer_of_the_server_and_the_same_line(pdpp: Shell) -> None:
    said = pdpp("search", "deposit", "euros", "--json")

    (hit,) = said.body["data"]
    (excerpt,) = hit["evidence_excerpts"]
    assert hit["record_key"] == "m1"
    assert "2,340" in pdpp(*shlex.split(excerpt["command"])[1:]).out
    assert said.err == ""


def test_a_line_repeats_the_options_that_were_typed(pdpp: Shell) -> None:
    said = pdpp("search", "budget", "--provider-url", "http://testserver/")

    assert all(
        words[-2:] == ["--provider-url", "http://testserver/"] for words in commands(said.out)
    )


def test_a_key_that_fits_no_plain_id_is_named_by_a_handle_that_works(
    pdpp: Shell, world: World
) -> None:
    world.put(("cin_personal", "messages", {"id": "a/b:..'c", "subject": "Umbrella stand"}))

    lines = commands(pdpp("search", "umbrella").out)

    assert lines[0][1].startswith("pdpp://record/")
    assert all("Umbrella stand" in pdpp(*words).out for words in lines)


def test_streams_connections_and_filters_narrow(pdpp: Shell) -> None:
    everywhere = pdpp("search", "budget", "--json").body["data"]
    one = pdpp("search", "budget", "--connection", "cin_chat", "--json").body["data"]

    assert {hit["connection_id"] for hit in everywhere} == {"cin_work", "cin_chat"}
    assert {hit["connection_id"] for hit in one} == {"cin_chat"}
    assert pdpp("search", "budget", "--stream", "transactions", "--json").body["data"] == []


def test_pages_follow_one_another(pdpp: Shell) -> None:
    first = pdpp("search", "lease OR budget", "--limit", "1")
    cursor = first.out.split("--cursor ")[1].split()[0]
    second = pdpp("search", "lease OR budget", "--limit", "1", "--cursor", cursor)

    assert "1 shown of 5; there are more" in first.out
    assert commands(first.out)[-1] != commands(second.out)[-1]


def test_no_hit_says_what_to_try(pdpp: Shell) -> None:
    said = pdpp("search", "xylophone")

    assert said.code == 0
    assert "0 shown of 0" in said.out
    assert "Try fewer or other words" in said.out


def test_a_server_without_offsets_is_asked_to_find_the_marked_words(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at_public")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    excerpt = {"field_path": "body", "preview_text": "signed the <mark>lease</mark> today"}
    hit = {"stream": "messages", "record_key": "m_9", "evidence_excerpts": [excerpt]}
    shell.send = answering({"/v1/search": {"object": "list", "has_more": False, "data": [hit]}})

    said = shell("search", "lease")

    assert commands(said.out)[0] == ["field", "messages:m_9", "body", "--find", "lease"]


def test_nothing_that_a_server_sends_steers_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names and times, too: a server elsewhere may send anything."""
    Output(as_json=False).body({}, [*table(["KIND\x1b[2J"], []), "from \u202e to"])

    assert capsys.readouterr().out == "KIND\\u001b[2J\nfrom \\u202e to\n"


def test_a_command_for_a_key_that_cannot_be_shown_names_it_all_the_same(
    pdpp: Shell, world: World
) -> None:
    key = "a\u202e'b \u2066c"
    world.put(("cin_personal", "messages", {"id": key, "subject": "A zebra"}))

    said = pdpp("search", "zebra").out.splitlines()

    command = next(each.strip() for each in said if " fetch " in each)
    assert command.isprintable()
    split = ["bash", "-c", f"pdpp() {{ printf '%s\\0' \"$@\"; }}; {command}"]
    words = subprocess.run(split, capture_output=True, check=True).stdout.decode().split("\0")
    assert words[:-1] == ["fetch", f"cin_personal/messages:{key}"]


def test_control_characters_of_a_record_do_not_reach_the_terminal(
    pdpp: Shell, world: World
) -> None:
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
