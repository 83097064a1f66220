"""``manage.py run``: everything on one port, ready to use after a clone."""

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone
from typing_extensions import override

from importers.runs.background import Imports
from operations import (
    alert_email,
    background_jobs,
    demo_data,
    event_worker,
    leader_lock,
    schema_version,
    tracing_setup,
)
from operations.postgres import server
from owner.accounts import setup_link
from owner.management.commands.setup_link import address
from pdpp_site import server as pdpp_site_server
from pdpp_site import startup_banner

OLDEST_POSTGRES = 15
JOBS = (
    (background_jobs.vectors, background_jobs.PAUSE_SECONDS),
    (background_jobs.words, background_jobs.PAUSE_SECONDS),
    (background_jobs.erasures, background_jobs.PAUSE_SECONDS),
    (background_jobs.upkeep, background_jobs.UPKEEP_SECONDS),
    (alert_email.tell_owner, alert_email.SECONDS),
)
"""What one process at a time does, again and again, and how long it rests in between."""


class Command(BaseCommand):
    """``manage.py`` has started the embedded PostgreSQL by now and stops it afterwards."""

    help = "Migrate, load the demo life on the first start, and serve REST, MCP and the admin."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; make check runs them all

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        _check_telemetry()
        try:
            bound = pdpp_site_server.bind(settings.PDPP_BIND, settings.PDPP_PORT)
        except pdpp_site_server.NotBoundError as error:
            raise CommandError(str(error)) from None
        self._check_version()
        self._check_watched()
        _prepare()
        greeting = _welcome()
        # Before there are threads: two that import each other's modules would wait in a circle.
        importlib.import_module("pdpp_site.asgi")
        beside = _beside_requests() if settings.PDPP_BACKGROUND else contextlib.nullcontext()
        with _kept_alive(), beside:
            pdpp_site_server.serve(
                bound, ready=lambda: startup_banner.show(greeting, seconds=time.monotonic() - began)
            )

    def _check_watched(self) -> None:
        """No reason not to serve: a disk may come later."""
        if settings.PDPP_WATCH and not Path(settings.PDPP_WATCH).is_dir():
            self.stderr.write(
                f"PDPP_WATCH is {settings.PDPP_WATCH}, which is no folder now. Nothing is imported"
                " from there until it is one."
            )

    def _check_version(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0]) // 10_000
        if version < OLDEST_POSTGRES:
            raise CommandError(
                f"PostgreSQL {OLDEST_POSTGRES} or later is needed; DATABASE_URL has {version}."
            )


def _check_telemetry() -> None:
    try:
        tracing_setup.check()
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error


def _kept_alive() -> contextlib.AbstractContextManager[None]:
    """Whose database comes from elsewhere has somebody else to keep it running."""
    if not settings.EMBEDDED:
        return contextlib.nullcontext()
    job = server.reviving(settings.PDPP_VAR / "postgres")
    return background_jobs.going_on(job, pause=server.PAUSE_SECONDS)


@contextlib.contextmanager
def _beside_requests() -> Iterator[None]:
    """All that this process does or, where one at a time does it, is ready to take over."""
    turn = leader_lock.Turn(leader_lock.BACKGROUND)
    imports = Imports(
        settings.PDPP_VAR / "imports",
        watch=Path(settings.PDPP_WATCH) if settings.PDPP_WATCH else None,
        seconds=settings.PDPP_WATCH_SECONDS,
        may_watch=turn.is_ours,
    )
    with (
        contextlib.closing(turn),
        _working(turn),
        background_jobs.going_on(imports.job),
        event_worker.at_work(),
        contextlib.closing(imports),
    ):
        yield


@contextlib.contextmanager
def _working(turn: leader_lock.Turn) -> Iterator[None]:
    with contextlib.ExitStack() as jobs:
        for job, pause in JOBS:
            jobs.enter_context(background_jobs.going_on(job, pause=pause, may=turn.is_ours))
        yield


def _prepare() -> None:
    with schema_version.alone():
        if settings.EMBEDDED and settings.PDPP_DEMO and not demo_data.was_loaded():
            call_command("demo", "load")


def _welcome() -> startup_banner.Welcome:
    """What to print once the server answers, which is too late to ask the database."""
    now = timezone.now()
    greeting = startup_banner.Welcome(
        url=settings.PDPP_PUBLIC_URL,
        set_up=None if setup_link.owner_account(now) else _set_up(now),
        tokens=demo_data.tokens(now) if settings.EMBEDDED and settings.PDPP_DEMO else None,
    )
    connection.close()
    return greeting


def _set_up(now: datetime) -> str:
    """A secret goes to a person's terminal, not to the log of a server somewhere."""
    is_logged = not settings.EMBEDDED or _journal_reads()
    return "manage.py setup-link" if is_logged else address(setup_link.make(now))


def _journal_reads() -> bool:
    """Whether systemd keeps what is printed; terminals that it started inherit the variable."""
    printed = os.fstat(sys.stdout.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{printed.st_dev}:{printed.st_ino}"
