"""`make import-large`: generate, import, and say what it took.

MAIL_MB (4000 unless told) and HEALTH_MB (2000) say how large the exports are, TEMP where they and
the database are made for the time. Each import is a process of its own, whose memory is read from
the system; that of the database server is not counted.
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

from bench.importing import generating
from bench.served import ROOT
from operations.postgres.server import EmbeddedPostgres, url

MOST_MIB = 300
MB = 1_000_000
PROGRAM = """
import re, sys
from pathlib import Path
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def main() -> int:
    """0 when every import stayed within its memory."""
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
        return max(_mail(home, environment), _health(home, environment))
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _mail(home: Path, environment: dict[str, str]) -> int:
    path, size = home / "large.mbox", int(os.environ.get("MAIL_MB") or 4000) * MB
    count = generating.mailbox(path, size=size, dice=random.Random(1))  # noqa: S311 - not a secret
    return _import(path, count, "mails", environment)


def _health(home: Path, environment: dict[str, str]) -> int:
    path, size = home / "export.xml", int(os.environ.get("HEALTH_MB") or 2000) * MB
    count = generating.health(path, size=size, dice=random.Random(1))  # noqa: S311 - not a secret
    return _import(path, count, "measurements", environment)


def _import(path: Path, count: int, what: str, environment: dict[str, str]) -> int:
    """Once, and once more, when nothing is left to be written."""
    status = 0
    for time_of in ("first", "again"):
        began = time.monotonic()
        said = _run(environment, "import", str(path))
        seconds = time.monotonic() - began
        peak = int(re.findall(r"peak (\d+)", said)[-1]) // 1024
        sys.stdout.write(
            f"{what}, {time_of}: {count:,} in {path.stat().st_size // MB:,} MB,"
            f" {seconds:.0f} s, {count / seconds:,.0f} a second, peak memory {peak} MiB\n"
        )
        sys.stdout.write("".join(f"  {line}\n" for line in said.splitlines() if " new, " in line))
        status = max(status, int(peak > MOST_MIB))
    path.unlink()
    return status


def _run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
