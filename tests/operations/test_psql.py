"""`manage.py psql` opens PostgreSQL's terminal on the database of the installation."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from operations.management.commands import psql
from operations.postgres import server


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Record each program that the command starts, with its environment, and start none."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], **options: Any) -> "subprocess.CompletedProcess[bytes]":
        calls.append((command, options["env"]))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_the_bundled_program_gets_the_embedded_database_and_options(
    settings: Any, tmp_path: Path, started: list[Any]
) -> None:
    settings.DATABASE_URL, settings.PDPP_VAR = "", tmp_path

    with pytest.raises(SystemExit, match="3"):
        call_command("psql", "--", "-At")

    [((program, conninfo, option), _)] = started
    assert Path(program) == server.bundled_programs() / "psql"
    assert f"host={server.socket_directory(tmp_path / 'postgres')}" in conninfo
    assert option == "-At"


def test_a_password_is_not_among_the_arguments(settings: Any, started: list[Any]) -> None:
    settings.DATABASE_URL = "postgresql://pdpp:made-up@db.example/pdpp"

    with pytest.raises(SystemExit):
        call_command("psql")

    [(command, environment)] = started
    assert "host=db.example" in command[1]
    assert "made-up" not in " ".join(command)
    assert environment["PGPASSWORD"] == "made-up"


def test_a_missing_program_names_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "bundled_programs", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CommandError, match="apt install postgresql-client"):
        psql._program()
