"""`manage.py run`: migrate, start background jobs and serve everything on one port."""

import contextlib
import importlib
import ipaddress
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone
from rich.console import Console
from rich.text import Text
from typing_extensions import override

from evidence.models.owners import Owner, acting_for, first_owner
from evidence.search.embedding import configured_embedder
from operations import background_jobs, demo_data, health, jobs
from operations.demo_data import DemoTokens
from owner.accounts import setup
from owner.setup_snippets import MCP, REST, token_snippets
from pdpp_site import background, reloader
from pdpp_site import server as pdpp_site_server

MIN_POSTGRES_VERSION = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupInfo:
    """What the banner shows; `set_up` is a set-up link or the command that creates one."""

    url: str
    set_up: str | None
    tokens: DemoTokens | None


class Command(BaseCommand):
    """`manage.py` starts the embedded PostgreSQL before this command and stops it afterwards."""

    help = "Migrate, load the demo data on the first start, and serve REST, MCP and the admin."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; make check runs them all

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--reload",
            action="store_true",
            help="Restart when a Python file or template changes. For development.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["reload"]:
            folders = [path.parent for path in settings.BASE_DIR.glob("*/__init__.py")]
            reloader.run_with_reload([sys.executable, sys.argv[0], "run"], folders)
            return
        began = time.monotonic()
        _check_settings()
        try:
            bound = pdpp_site_server.bind(settings.PDPP_BIND, settings.PDPP_PORT)
        except pdpp_site_server.BindError as error:
            raise CommandError(str(error)) from None
        self._check_version()
        self._check_watch_folder()
        self._check_address()
        _prepare()
        info = _startup_info()
        # Before threads start: threads importing each other's modules could deadlock.
        importlib.import_module("pdpp_site.asgi")
        work: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if settings.PDPP_BACKGROUND:
            work = jobs.run_jobs(background.registry())
        with _database_watchdog(), work:
            pdpp_site_server.serve(
                bound, ready=lambda: show_banner(info, seconds=time.monotonic() - began)
            )

    def _check_watch_folder(self) -> None:
        """Warn only, because a disk may be mounted later."""
        if settings.PDPP_WATCH and not Path(settings.PDPP_WATCH).is_dir():
            self.stderr.write(
                f"PDPP_WATCH: {settings.PDPP_WATCH} is not a folder. Imports from it start when it"
                " exists."
            )

    def _check_address(self) -> None:
        """Say what a proxy adds, where others can connect and no proxy is named. Warn only."""
        is_local = settings.PDPP_BIND == "localhost" or _is_loopback(settings.PDPP_BIND)
        if is_local or not all(map(_is_loopback, settings.PDPP_TRUSTED_PROXIES)):
            return
        self.stderr.write(
            f"PDPP_BIND={settings.PDPP_BIND}: others can connect, and what they send and read is not"
            " encrypted. A proxy before this server adds HTTPS and can limit who connects and how often;"
            " docs/deploy.md has two configurations. Name it in PDPP_TRUSTED_PROXIES."
        )

    def _check_version(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0]) // 10_000
        if version < MIN_POSTGRES_VERSION:
            raise CommandError(
                f"PostgreSQL {MIN_POSTGRES_VERSION} or later is required; DATABASE_URL has {version}."
            )


def _is_loopback(address: object) -> bool:
    """Return whether an address or network is of this machine alone; a host name is not."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_network(str(address)).is_loopback
    return False


def _check_settings() -> None:
    """Report an embedding model that cannot work, before anything starts."""
    try:
        configured_embedder()
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error


def _database_watchdog() -> contextlib.AbstractContextManager[None]:
    """Restart the embedded PostgreSQL if it dies. A database in DATABASE_URL is not ours to restart."""
    if not settings.EMBEDDED:
        return contextlib.nullcontext()
    restart = partial(background_jobs.restart_database, settings.PDPP_VAR / "postgres")
    return jobs.run_every(background_jobs.DATABASE_CHECK_SECONDS, restart)


def _prepare() -> None:
    with health.migrate_once():
        if settings.EMBEDDED and settings.PDPP_DEMO and not demo_data.is_demo_loaded():
            call_command("seed", owner=first_owner(timezone.now()).owner_id)
    jobs.register(job.name for job in background.registry())


def _startup_info() -> StartupInfo:
    """Collect what the banner shows, before the server starts, with queries."""
    now = timezone.now()
    owner = first_owner(now)
    shows_demo = settings.EMBEDDED and settings.PDPP_DEMO
    with acting_for(owner.owner_id):
        info = StartupInfo(
            url=settings.PDPP_PUBLIC_URL,
            set_up=_setup_instructions(owner, now) if owner.user is None else None,
            tokens=demo_data.create_demo_tokens(now) if shows_demo else None,
        )
    connection.close()
    return info


def _setup_instructions(owner: Owner, now: datetime) -> str:
    """Return a set-up link for a terminal; for a log, the command that creates one."""
    is_logged = not settings.EMBEDDED or _is_logged_by_systemd()
    return (
        "manage.py setup-link" if is_logged else setup.link_url(setup.create_link(owner, now=now))
    )


def _is_logged_by_systemd() -> bool:
    """Return whether systemd logs the output. Terminals that it started inherit the variable."""
    output = os.fstat(sys.stdout.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{output.st_dev}:{output.st_ino}"


def show_banner(info: StartupInfo, *, seconds: float) -> None:
    """Print addresses, set-up link and demo tokens, unwrapped, so that commands can be copied."""
    console = Console(soft_wrap=True, highlight=False)
    for heading, lines in _banner_sections(info, seconds):
        console.print(Text(f"\n{heading}", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    console.print()


def _banner_sections(info: StartupInfo, seconds: float) -> Iterator[tuple[str, list[str]]]:
    url = info.url
    yield (
        f"PDPP is ready after {seconds:.1f} s. Press Ctrl-C to stop.",
        [f"Admin  {url}/admin/", f"REST   {url}{REST}", f"MCP    {url}{MCP}"],
    )
    if info.set_up is not None:
        yield "Set up your account (the link works once, for 24 hours)", [info.set_up]
    if info.tokens is not None:
        yield "Try the demo data (these tokens read only demo data and expire in 24 hours)", []
        for resource, bearer in ((MCP, info.tokens.mcp), (REST, info.tokens.rest)):
            for recipe in token_snippets(bearer, resource=resource, url=url):
                yield recipe.app, list(recipe.lines)
