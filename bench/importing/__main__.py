"""`make import-large`: generate and import large exports, and print time and memory.

MAIL_MB (default 4000), HEALTH_MB (default 2000) and BOOKINGS (default 60000) set the sizes, TEMP the
directory for the exports and the database. The table of bookings follows a statement in OFX, which
has half of them. Each import is a separate process; its memory does not include the database server.
"""

import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.importing import generator
from bench.served import ROOT
from operations.postgres.server import EmbeddedPostgres, url

MAX_MIB = 300
MB = 1_000_000
PROGRAM = """
import re, sys
from pathlib import Path
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def main() -> int:
    """Return 0 if every import used at most MAX_MIB."""
    home = Path(tempfile.mkdtemp(prefix="pdpp-import-", dir=os.environ.get("TEMP")))
    server = EmbeddedPostgres(home / "pg", scratch=True)
    server.start()
    try:
        environment = os.environ | {
            "DATABASE_URL": url(home / "pg"),
            "PDPP_DATABASE_POOL": "0",
            "PDPP_VAR": str(home),
            "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
            "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        }
        _run(environment, "migrate", "--verbosity", "0")
        parts = (_mail, _health, _bookings)
        return max(part(home, environment) for part in parts)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _mail(home: Path, environment: dict[str, str]) -> int:
    path, size = home / "large.mbox", int(os.environ.get("MAIL_MB") or 4000) * MB
    count = generator.mailbox(path, size=size, rng=random.Random(1))  # noqa: S311 - not a secret
    return _import(path, count, "mails", environment)


def _health(home: Path, environment: dict[str, str]) -> int:
    path, size = home / "export.xml", int(os.environ.get("HEALTH_MB") or 2000) * MB
    count = generator.health(path, size=size, rng=random.Random(1))  # noqa: S311 - not a secret
    return _import(path, count, "measurements", environment)


def _bookings(home: Path, environment: dict[str, str]) -> int:
    count = int(os.environ.get("BOOKINGS") or 60_000)
    older, table = home / "girokonto.ofx", home / "girokonto.csv"
    half = generator.bookings_ofx(older, count=count // 2)
    generator.bookings_csv(table, count=count)
    status = _import(older, half, "bookings of OFX", environment)
    return max(status, _import(table, count, "bookings of a table", environment))


def _import(path: Path, count: int, what: str, environment: dict[str, str]) -> int:
    """Import a file twice; the second run writes nothing. Returns 1 if it used too much memory."""
    status = 0
    for run in ("first", "again"):
        started = time.monotonic()
        output = _run(environment, "import", str(path))
        seconds = time.monotonic() - started
        peak = int(re.findall(r"peak (\d+)", output)[-1]) // 1024
        sys.stdout.write(
            f"{what}, {run}: {count:,} in {path.stat().st_size // MB:,} MB,"
            f" {seconds:.0f} s, {count / seconds:,.0f} per second, peak memory {peak} MiB\n"
        )
        sys.stdout.write("".join(f"  {line}\n" for line in output.splitlines() if " new, " in line))
        status = max(status, int(peak > MAX_MIB))
    path.unlink()
    return status


def _run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
