"""Run imports of the tests' first owner in separate processes on the test's database."""

import os
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection

START = """
import sys
import django
django.setup()
from django.utils import timezone
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import NdjsonLine, read_lines
from evidence.models.owners import act_for
act_for("owner")
"""


def python(program: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start ``program`` in a process, which must end before the test."""
    return subprocess.Popen(
        [sys.executable, "-c", START + program, *arguments],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def environment() -> dict[str, str]:
    """Return the environment of a process on the database and with the key of the test."""
    server = urlsplit(os.environ["DATABASE_URL"])
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "DATABASE_URL": urlunsplit(server._replace(path=f"/{connection.settings_dict['NAME']}")),
        "PDPP_SECRET_KEY": settings.SECRET_KEY,
    }
