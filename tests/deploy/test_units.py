"""The shipped units of systemd: what they start runs and stops as they say."""

import http.client
import subprocess
from pathlib import Path

import pytest

from operations.postgres.server import EmbeddedPostgres
from tests.deploy.servers import own_var, started
from tests.deploy.shipped import DEPLOY, environment_file, parsed, unit, unit_text
from tests.pdpp_site.web import free_port
from tests.tools import require_program

pytestmark = pytest.mark.slow

UNITS = ("pdpp.service", "pdpp@.service")
MOST_EXPOSED = 20
"""Tenths, as systemd-analyze counts: a service without any hardening has 96."""


def test_the_service_starts_with_its_own_database_and_stops_it() -> None:
    given = environment_file("pdpp.env.example")
    assert given == {"PDPP_DEMO": "false"}

    with own_var() as var:
        service = unit("pdpp.service", var=var)
        with started(service, port=free_port(), **given) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", "/readyz")
            assert connection.getresponse().status == 200
            connection.close()

        assert server.process.returncode == 0, server.printed
        # Whoever has the link has the account, and the journal has more readers than the owner.
        assert "setup-link" in server.printed
        assert "/set-up/" not in server.printed
        assert not any(EmbeddedPostgres(var / "postgres")._server_processes())


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_and_little_exposed(name: str, tmp_path: Path) -> None:
    require_program("systemd-analyze")
    file = tmp_path / name
    file.write_text(unit_text(name, var=tmp_path))

    verified = _analyze("verify", str(file))
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    exposed = _analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(file))
    assert exposed.returncode == 0, exposed.stdout


def _analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", UNITS)
def test_the_service_may_write_its_own_state_and_nothing_else(name: str) -> None:
    service = parsed((DEPLOY / "systemd" / name).read_text())

    assert service.one("ProtectSystem") == "strict"
    assert service.one("ProtectHome") == "yes"
    assert service.environment["PDPP_VAR"] == f"/var/lib/{service.one('StateDirectory')}"
    assert service.all("ReadWritePaths") == []
    assert service.one("User") != "root"
    assert service.one("StateDirectoryMode") == "0700"


@pytest.mark.parametrize("name", [*UNITS, "user/pdpp.service"])
def test_it_starts_at_boot_and_stops_as_the_server_wants_to(name: str) -> None:
    service = parsed((DEPLOY / "systemd" / name).read_text())

    assert service.one("WantedBy", section="Install") in {"multi-user.target", "default.target"}
    assert service.command[-2:] == ["manage.py", "run"]
    # The embedded database is stopped by the server, after the requests under way.
    assert service.one("KillMode") == "mixed"
    assert float(service.one("TimeoutStopSec")) > 30 + 2 * 20


def test_several_servers_need_a_database_that_none_of_them_stops(tmp_path: Path) -> None:
    service = unit("pdpp@.service", var=tmp_path, instance="8001")

    assert service.environment["PDPP_PORT"] == "8001"
    [condition] = service.all("ExecCondition")
    for url, status in (("", 1), ("postgresql://x", 0)):
        command = condition.partition(" -c ")[2].strip("'")
        done = subprocess.run(["/bin/sh", "-c", command], env={"DATABASE_URL": url}, check=False)
        assert done.returncode == status
