"""Run imports in separate processes on the test's database."""

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
from evidence.storing.ingest import ingest_lines
from evidence.storing.ndjson import NdjsonLine, read_lines
"""


def python(program: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start ``program`` in a process, which must end before the test."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "pdpp_site.settings",
        "DATABASE_URL": _database_url(),
        "PDPP_SECRET_KEY": settings.SECRET_KEY,
    }
    return subprocess.Popen(
        [sys.executable, "-c", START + program, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _database_url() -> str:
    server = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(server._replace(path=f"/{connection.settings_dict['NAME']}"))
