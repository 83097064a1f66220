"""Invalid environment variables stop the start with one line that names the variable."""

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
from pdpp_site import command_line
from pdpp_site.env import Environment, database_settings

ROOT = Path(__file__).resolve().parents[2]
NAME = "PDPP_TESTED"


@pytest.mark.parametrize(
    ("reader", "value", "options"),
    [
        ("integer", "abc", {"default": 1}),
        ("integer", "-1", {"default": 1}),
        ("integer", "0", {"default": 1, "min_value": 1}),
        ("integer", "65536", {"default": 1, "max_value": 65_535}),
        ("integer", "²", {"default": 1}),
        ("boolean", "maybe", {"default": True}),
        ("choice", "LOUD", {"choices": ("DEBUG", "INFO"), "default": "INFO"}),
        ("url", "records.example", {"default": ""}),
        ("url", "ftp://records.example", {"default": ""}),
        ("url", "http://[bad", {"default": ""}),
        ("url", "https://", {"default": ""}),
        ("networks", "127.0.0.1,proxy", {"default": []}),
    ],
)
def test_invalid_value_is_rejected_by_name(
    reader: str, value: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, value)

    with pytest.raises(ImproperlyConfigured, match=rf"^{NAME} takes .+; got .+\.$"):
        getattr(Environment(), reader)(NAME, **options)


@pytest.mark.parametrize(
    ("reader", "value", "options", "parsed"),
    [
        ("string", "", {"default": "a"}, "a"),
        ("string", "$HOME", {}, "$HOME"),
        ("integer", " 7 ", {"default": 1, "max_value": 7}, 7),
        ("integer", "", {"default": 1}, 1),
        ("boolean", "No", {"default": True}, False),
        ("boolean", "", {"default": True}, True),
        ("choice", "debug", {"choices": ("DEBUG",), "default": ""}, "DEBUG"),
        ("url", "https://records.example/", {"default": ""}, "https://records.example"),
        ("url", "HTTPS://Records.Example/A", {"default": ""}, "https://records.example/A"),
        ("networks", "::1, 10.0.0.0/8", {"default": []}, ["::1", "10.0.0.0/8"]),
        ("networks", "", {"default": ["::1"]}, ["::1"]),
        ("networks", "*", {"default": []}, ["*"]),
    ],
)
def test_empty_value_is_unset_and_other_values_are_parsed(
    reader: str,
    value: str,
    options: dict[str, Any],
    parsed: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NAME, value)

    assert getattr(Environment(), reader)(NAME, **options) == parsed


@pytest.mark.parametrize(
    "read", [lambda: database_settings("mysql://me:hush@db/pdpp"), lambda: database_settings("hush"), lambda: database_settings("postgresql://me:hush@db")]
)  # fmt: skip
def test_invalid_url_error_names_variable_without_password(read: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="takes a URL such as") as refused:
        read()

    assert "hush" not in str(refused.value)


def test_unwritable_key_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ImproperlyConfigured, match="Set PDPP_VAR to a writable folder"):
        key_file.installation_key(tmp_path / "file", embedded=True)


def test_damaged_key_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / key_file.KEYS_FILE).write_text("{")

    with pytest.raises(ImproperlyConfigured, match="Restore it from a copy"):
        key_file.installation_key(tmp_path, embedded=True)
    assert (tmp_path / key_file.KEYS_FILE).read_text() == "{"


def test_command_with_invalid_settings_prints_one_line(tmp_path: Path) -> None:
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
        "Invalid settings: PDPP_PORT takes a whole number from 1 to 65535; got 'abc'.\n"
    )


def test_database_errors_are_described_with_next_step() -> None:
    empty = ProgrammingError("relation does not exist")
    empty.__cause__ = UndefinedTable()

    assert command_line.describe(empty) == command_line.NO_TABLES
    assert command_line.describe(OperationalError("refused\nDETAIL: (alice)")) == (
        "Cannot connect to the database: refused."
        " Check that it is running and that DATABASE_URL is correct."
    )
    assert "no reason given" in str(command_line.describe(InterfaceError()))
    assert command_line.describe(ProgrammingError("a fault of ours")) is None
    assert command_line.describe(ValueError()) is None


def test_interrupted_command_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(commands: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pdpp_site.command_line.ServerCommands.execute", interrupted)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("sys.argv", ["manage.py", "check"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")

    assert ended.value.code == 130
    assert (
        capsys.readouterr().err == "Stopped. Run the same command again to continue or restart.\n"
    )
