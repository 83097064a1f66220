"""``manage.py run``: everything on one port, ready to use after a clone."""

import contextlib
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone
from typing_extensions import override

from evidence.importing.background import Imports
from pdpp_site import background, demo_life, health, serving, setup_links, telling, welcome
from pdpp_site.management.commands.setup_link import address

OLDEST_POSTGRES = 15


class Command(BaseCommand):
    """``manage.py`` has started the embedded PostgreSQL by now and stops it afterwards."""

    help = "Migrate, load the demo life on the first start, and serve REST, MCP and the admin."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; make check runs them all

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            bound = serving.bind(settings.PDPP_BIND, settings.PDPP_PORT)
        except serving.PortBusyError as error:
            raise CommandError(f"{error} Stop what runs there, or set PDPP_PORT.") from None
        self._check_version()
        if health.unready() is not None:
            call_command("migrate", verbosity=0, interactive=False)
        if settings.EMBEDDED and settings.PDPP_DEMO and not demo_life.was_loaded():
            call_command("demo", "load")
        greeting = _welcome()
        imports = Imports(
            settings.PDPP_VAR / "imports",
            watch=Path(settings.PDPP_WATCH) if settings.PDPP_WATCH else None,
            seconds=settings.PDPP_WATCH_SECONDS,
        )
        with (
            background.going_on(background.vectors),
            background.going_on(background.words),
            background.going_on(background.erasures),
            background.going_on(background.upkeep, pause=background.UPKEEP_SECONDS),
            background.going_on(telling.tell_owner, pause=telling.SECONDS),
            background.going_on(imports.job),
            contextlib.closing(imports),
        ):
            serving.serve(
                bound, ready=lambda: welcome.show(greeting, seconds=time.monotonic() - began)
            )

    def _check_version(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0]) // 10_000
        if version < OLDEST_POSTGRES:
            raise CommandError(
                f"PostgreSQL {OLDEST_POSTGRES} or later is needed; DATABASE_URL has {version}."
            )


def _welcome() -> welcome.Welcome:
    """What to print once the server answers, which is too late to ask the database."""
    now = timezone.now()
    greeting = welcome.Welcome(
        url=settings.PDPP_PUBLIC_URL,
        set_up=None if setup_links.owner_account(now) else _set_up(now),
        tokens=demo_life.tokens(now) if settings.EMBEDDED and settings.PDPP_DEMO else None,
    )
    connection.close()
    return greeting


def _set_up(now: datetime) -> str:
    """A secret goes to a person's terminal, not to the log of a server somewhere."""
    return address(setup_links.make(now)) if settings.EMBEDDED else "manage.py setup-link"
