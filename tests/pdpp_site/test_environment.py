"""What the environment cannot mean is said in one line that names the variable, and nothing starts."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedTable

from operations import key_file
from pdpp_site import command_errors
from pdpp_site.env import Environment, database, mail_server

ROOT = Path(__file__).resolve().parents[2]
NAME = "PDPP_TRIED"


@pytest.mark.parametrize(
    ("reader", "said", "more"),
    [
        ("whole", "abc", {"default": 1}),
        ("whole", "-1", {"default": 1}),
        ("whole", "0", {"default": 1, "least": 1}),
        ("whole", "65536", {"default": 1, "most": 65_535}),
        ("whole", "²", {"default": 1}),
        ("switch", "maybe", {"default": True}),
        ("one_of", "LOUD", {"of": ("DEBUG", "INFO"), "default": "INFO"}),
        ("address", "records.example", {"default": ""}),
        ("address", "ftp://records.example", {"default": ""}),
        ("address", "http://[bad", {"default": ""}),
        ("address", "https://", {"default": ""}),
        ("networks", "127.0.0.1,proxy", {"default": []}),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(
    reader: str, said: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, said)

    with pytest.raises(ImproperlyConfigured, match=rf"^{NAME} is .+; it takes .+\.$"):
        getattr(Environment(), reader)(NAME, **more)


@pytest.mark.parametrize(
    ("reader", "said", "more", "meant"),
    [
        ("text", "", {"default": "a"}, "a"),
        ("text", "$HOME", {}, "$HOME"),
        ("whole", " 7 ", {"default": 1, "most": 7}, 7),
        ("whole", "", {"default": 1}, 1),
        ("switch", "No", {"default": True}, False),
        ("switch", "", {"default": True}, True),
        ("one_of", "debug", {"of": ("DEBUG",), "default": ""}, "DEBUG"),
        ("address", "https://records.example/", {"default": ""}, "https://records.example"),
        ("networks", "::1, 10.0.0.0/8", {"default": []}, ["::1", "10.0.0.0/8"]),
        ("networks", "", {"default": ["::1"]}, ["::1"]),
        ("networks", "*", {"default": []}, ["*"]),
    ],
)
def test_what_is_empty_is_not_set_and_the_rest_is_taken_as_it_is_meant(
    reader: str, said: str, more: dict[str, Any], meant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, said)

    assert getattr(Environment(), reader)(NAME, **more) == meant


@pytest.mark.parametrize(
    "read", [lambda: database("mysql://me:hush@db/pdpp"), lambda: database("hush"), lambda: database("postgresql://me:hush@db"), lambda: mail_server("hush")]
)  # fmt: skip
def test_an_address_that_is_none_is_named_and_not_repeated(read: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="is no address such as") as refused:
        read()

    assert "hush" not in str(refused.value)


def test_a_place_where_no_key_can_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImproperlyConfigured, match="Set PDPP_VAR to a folder"):
        key_file.installation_key(tmp_path / "file", embedded=True)


def test_damaged_keys_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / key_file.KEYS_FILE).write_text("{")

    with pytest.raises(ImproperlyConfigured, match="Put a copy of it back"):
        key_file.installation_key(tmp_path, embedded=True)
    assert (tmp_path / key_file.KEYS_FILE).read_text() == "{"


def test_a_command_that_cannot_begin_says_why_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PDPP_VAR": str(tmp_path), "PDPP_PORT": "abc"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "The settings do not hold. PDPP_PORT is 'abc'; it takes a whole number from 1 to 65535.\n"
    )


def test_a_database_that_is_away_or_empty_is_said_with_what_to_do() -> None:
    empty = ProgrammingError("relation does not exist")
    empty.__cause__ = UndefinedTable()

    assert command_errors.in_words(empty) == command_errors.MISSING
    assert command_errors.in_words(OperationalError("refused\nDETAIL: (alice)")) == (
        "The database does not answer: refused. See that it runs, and what DATABASE_URL says."
    )
    assert "says nothing" in str(command_errors.in_words(InterfaceError()))
    assert command_errors.in_words(ProgrammingError("a fault of ours")) is None
    assert command_errors.in_words(ValueError()) is None


def test_a_command_that_is_interrupted_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("django.core.management.execute_from_command_line", interrupted)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("sys.argv", ["manage.py", "check"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")

    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped. The same command goes on, or begins anew.\n"
