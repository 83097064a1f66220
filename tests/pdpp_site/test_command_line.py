"""The server's command line shows its own commands, in groups, under the names of the docs."""

import contextlib
import runpy
from itertools import chain

import pytest
from django.conf import settings
from django.core.management import get_commands
from django.db import connection

from pdpp_site.command_line import GROUPS, SchemaError, ServerCommands, describe, require_schema


@pytest.fixture(autouse=True)
def _process_of_the_tests_keeps_its_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second setup would send the log of later tests to the captured stream of this one."""
    monkeypatch.setattr("django.setup", lambda: None)
    monkeypatch.setattr("gc.disable", lambda: None)


def own_commands() -> set[str]:
    """Return the names of the commands whose app is a folder of this project."""
    return {
        name.replace("_", "-")
        for name, app in get_commands().items()
        if isinstance(app, str) and (settings.BASE_DIR / app.split(".")[0]).is_dir()
    }


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with contextlib.suppress(SystemExit):
        ServerCommands(["manage.py", *arguments]).execute()
    return capsys.readouterr().out


def test_each_command_is_in_one_group() -> None:
    listed = sorted(chain.from_iterable(GROUPS.values()))

    assert listed == sorted({*own_commands(), "migrate", "shell"})


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)])
def test_help_shows_the_commands_of_this_server(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    lines = printed(capsys, *arguments).splitlines()

    assert (
        "  setup-link        Print a one-time link with which an owner sets a user name and password"
        in lines
    )
    assert not any(
        line.strip().startswith(("makemigrations", "dbshell", "addstatic")) for line in lines
    )
    assert max(map(len, lines)) <= 120


def test_all_commands_are_listed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    names = printed(capsys, "help", "--commands").splitlines()

    assert {"makemigrations", "setup_link"} <= set(names)


@pytest.mark.parametrize("name", ["setup-link", "owner-token", "grant"])
def test_help_of_a_command_hides_options_of_django(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for arguments in (("help", name), (name, "--help")):
        text = printed(capsys, *arguments)

        assert f"usage: manage.py {name} " in text
        assert "--settings" not in text
        assert "--no-color" not in text


def test_module_runs_the_same_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("sys.argv", ["", "help", "setup-link"])

    runpy.run_module("pdpp_site", run_name="__main__", alter_sys=True)

    assert capsys.readouterr().out.startswith("usage: python -m pdpp_site setup-link ")


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["run", "migrate", "prune", "backup"])
@pytest.mark.parametrize(
    ("made", "sign"),
    [
        (
            "INSERT INTO django_migrations (app, name, applied)"
            " VALUES ('evidence', '0043_owner_country', now())",
            "it has the migration evidence 0043_owner_country",
        ),
        (
            "ALTER TABLE evidence_blobchunk RENAME owner_id TO other",
            "evidence_blobchunk has no owners",
        ),
    ],
    ids=["a migration", "before owners"],
)
def test_a_database_of_another_version_is_refused(command: str, made: str, sign: str) -> None:
    """Its tables came from a later version, or from a state that was never released."""
    require_schema(command)
    with connection.cursor() as cursor:
        cursor.execute(made)

    with pytest.raises(SchemaError) as refused:
        require_schema(command)

    assert describe(refused.value) == (
        f"The database was made by another version of PDPP ({sign}), which this version"
        " cannot read. Nothing was done. Use that version, or name another database."
    )
    require_schema("psql")
