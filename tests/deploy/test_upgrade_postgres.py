"""``manage.py upgrade-postgres``, from the older PostgreSQL that the wheel has, too."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from typing_extensions import override

from operations.postgres import server
from operations.postgres import upgrade as postgres_upgrade
from operations.postgres.server import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    data_version,
    find_programs,
    url,
)
from operations.postgres.upgrade import upgrade
from tests.deploy.servers import SECRET_KEY, cast, environment, own_var, started
from tests.deploy.shipped import ROOT, unit
from tests.pdpp_site.web import free_port

OLD, NEW = 16, 18


class Earlier(EmbeddedPostgres):
    """As it was made before there were locales of PostgreSQL's own."""

    @override
    def _run(self, program: str, *arguments: str) -> None:
        plain = [each for each in arguments if "locale" not in each]
        more = ["--locale=C.UTF-8"] if program == "initdb" else []
        super()._run(program, *plain, *more)


def manage(var: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    given = environment(PDPP_VAR=str(var), PDPP_DEMO="false", PDPP_SECRET_KEY=SECRET_KEY)
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=given, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def var() -> Iterator[Path]:
    with own_var() as directory:
        yield directory


@pytest.mark.slow
def test_an_older_database_is_refused_then_upgraded_in_one_command_and_served(var: Path) -> None:
    home = var / "postgres"
    earlier = Earlier(home, scratch=True, programs=find_programs(OLD))
    earlier.start()
    tokens = cast(url(home))
    busy = manage(var, "upgrade-postgres")
    assert (busy.returncode, busy.stderr) == (
        1,
        "CommandError: The server is running; stop it first.\n",
    )
    earlier.stop()

    refused = manage(var, "run")
    assert refused.returncode == 1
    assert f"written by PostgreSQL {OLD}" in refused.stderr
    assert "manage.py upgrade-postgres" in refused.stderr

    done = manage(var, "upgrade-postgres")
    assert done.returncode == 0, done.stderr
    assert f"PostgreSQL {OLD} -> {NEW}" in done.stdout
    assert data_version(home / "data") == NEW
    assert data_version(home / f"data.{OLD}") == OLD
    assert manage(var, "upgrade-postgres").stdout == "The database is up to date.\n"

    port = free_port()
    given = {"PDPP_DEMO": "false", "PDPP_SECRET_KEY": SECRET_KEY}
    with started(unit("pdpp.service", var=var), port=port, **given):
        answer = httpx2.get(
            f"http://127.0.0.1:{port}/v1/search?q=lindenstraße",
            headers={"Authorization": f"Bearer {tokens['bob']}"},
        )
    assert [hit["record_key"] for hit in answer.json()["data"]] == ["m1"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What an older installation leaves, as far as its files tell."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/PG_VERSION").write_text(f"{OLD}\n")
    (tmp_path / server.FORMAT_FILE).write_text(server.FORMAT)
    return tmp_path


def test_a_copy_that_lacks_a_row_takes_no_place(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> int:
        raise EmbeddedPostgresError("The copy does not have all rows of the original")

    monkeypatch.setattr(postgres_upgrade, "_copy_database", lacking)
    with pytest.raises(EmbeddedPostgresError, match="not have all rows"):
        upgrade(home)

    assert data_version(home / "data") == OLD
    assert not (home / f"data.{OLD}").exists()


def test_an_upgrade_that_was_cut_short_between_its_last_steps_is_ended(home: Path) -> None:
    (home / "next/data").mkdir(parents=True)
    (home / "next/data/PG_VERSION").write_text(f"{NEW}\n")
    (home / "next/complete").write_text(str(OLD))
    (home / "data").rename(home / f"data.{OLD}")
    with pytest.raises(EmbeddedPostgresError, match="interrupted"):
        EmbeddedPostgres(home).start()

    done = upgrade(home)

    assert done is not None
    assert (done.old, done.new, done.rows) == (OLD, NEW, None)
    assert done.old_data == home / f"data.{OLD}"
    assert data_version(home / "data") == NEW
    assert not (home / "next").exists()


def test_programs_that_are_nowhere_are_asked_for(home: Path) -> None:
    (home / "data/PG_VERSION").write_text("12\n")
    (home / "use.lock").touch()

    with pytest.raises(EmbeddedPostgresError, match="--binaries"):
        upgrade(home)
