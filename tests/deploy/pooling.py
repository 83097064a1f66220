"""The shipped PgBouncer between servers and the database of a test."""

import contextlib
import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.deploy.shipped import text
from tests.pdpp_site.web import free_port
from tests.tools import require_program

FEW = 4
"""So few that servers must share them."""


@contextlib.contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """PgBouncer in front of a database that listens on a socket; its own URL."""
    program = require_program("pgbouncer")
    parts, port = urlsplit(url), free_port()
    [directory], name = parse_qs(parts.query)["host"], parts.path.strip("/")
    # It refuses to run as root, and the socket may be private to the account of the database.
    account = pwd.getpwuid(Path(directory).stat().st_uid) if os.geteuid() == 0 else None
    changed = {
        "pdpp = host=127.0.0.1 port=5432 dbname=pdpp": (
            f"{name} = host={directory} port=5432 dbname={name} user={parts.username}"
        ),
        "listen_port = 6432": f"listen_port = {port}",
        "auth_type = scram-sha-256\nauth_file = /etc/pgbouncer/userlist.txt": (
            "auth_type = any\nunix_socket_dir ="
        ),
        "default_pool_size = 20": f"default_pool_size = {FEW}",
    }
    with tempfile.TemporaryDirectory() as home:
        settings = Path(home) / "pgbouncer.ini"
        settings.write_text(text("pgbouncer/pgbouncer.ini", changed))
        if account is not None:
            os.chown(home, account.pw_uid, account.pw_gid)
        with (Path(home) / "said.log").open("w") as said:
            process = subprocess.Popen(
                [program, str(settings)], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                cwd="/", user=account and account.pw_uid, group=account and account.pw_gid,
                extra_groups=[] if account else None,
            )  # fmt: skip
            try:
                _await(process, port, Path(said.name))
                yield f"postgresql://{parts.username}@127.0.0.1:{port}/{name}"
            finally:
                process.terminate()
                process.wait(30)


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            raise AssertionError(f"pgbouncer ended: {log.read_text()}")
