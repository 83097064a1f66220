"""Measure the owner's pages in this process, whose environment is that of an installation.

CPU is that of the thread that renders a page and of its PostgreSQL session, which is never parallel.
"""

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import django
from django.conf import settings

from operations.postgres import server

ROUNDS = 7
WARM = 2
READ_PAGES, READ_SEARCHES = 100, 30
MAX_MS, MAX_KB = 150.0, 100.0
WORDS = ("project", "invoice", "coffee", "budget")


def main() -> None:
    django.setup()
    with server.running(settings.PDPP_VAR / "postgres"):
        # These imports need django.setup().
        from django.db import connection  # noqa: TID251 - closes it before the database stops

        with closing(connection):
            print_table()


def print_table() -> None:
    """Print the CPU milliseconds and size of each page."""
    from bench.owner_pages.pages import PAGES

    browser, values = _arrange()
    print("| Page | CPU, ms | kB | |\n|---|---:|---:|---|")  # noqa: T201
    for name, address in PAGES:
        spent, size = _measure(browser, address.format(**values))
        met = "met" if spent <= MAX_MS and size <= MAX_KB else "**missed**"
        print(f"| {name} | {spent:.0f} | {size:.0f} | {met} |", flush=True)  # noqa: T201


def _measure(browser: Any, address: str) -> tuple[float, float]:
    """Return the median CPU milliseconds of a page, and its kilobytes."""
    times, size = [], 0
    for number in range(WARM + ROUNDS):
        before = _cpu()
        response = browser.get(address)
        if number >= WARM:
            times.append((_cpu() - before) * 1000)
        if response.status_code != 200:
            raise RuntimeError(f"{address} answered {response.status_code}.")
        size = len(response.content)
    return statistics.median(times), size / 1000


def _cpu() -> float:
    """Return the CPU seconds of this thread and of its PostgreSQL session."""
    from django.db import connection  # noqa: TID251 - measures its session

    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    return time.thread_time() + int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _arrange() -> tuple[Any, Mapping[str, str]]:
    """Sign in the owner, let an app read, count people, and return the values of the addresses."""
    from django.contrib.auth.models import User
    from django.test import Client as Browser
    from django.utils import timezone

    from evidence.models.grants import Grant
    from evidence.models.owners import Owner, act_for
    from owner.records import people_index
    from owner.records.models import PersonCount

    owner = Owner.unscoped.get()
    act_for(owner.pk)
    sum(people_index.derive_people())
    user = owner.user or User.objects.get_or_create(username="owner")[0]
    Owner.unscoped.filter(pk=owner.pk).update(user=user)
    browser = Browser(HTTP_HOST="127.0.0.1", HTTP_ACCEPT="text/html")
    browser.force_login(user)
    grant = Grant.unscoped.order_by("issued_at").first() or _let_read()
    busiest = PersonCount.unscoped.values_list("person", flat=True).order_by("-records").first()
    since = timezone.now() - timedelta(days=1)
    until = timezone.now() + timedelta(days=1)
    return browser, {
        "person": str(busiest),
        "client": str(grant.package.client_id),
        "grant": grant.pk,
        "since": f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "until": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        **dict(_keys()),
    }


def _keys() -> Iterator[tuple[str, str]]:
    """Yield one record key for each stream, by its connection and name."""
    from evidence.models.records import Record

    for connection_id, stream in (("mail_personal", "messages"), ("bank", "transactions")):
        rows = Record.unscoped.filter(connection_id=f"cin_demo_{connection_id}", stream=stream)
        yield f"{connection_id}_key", rows.values_list("record_key", flat=True)[:1].get()


def _let_read() -> Any:
    """Grant an app all streams, let it read and search, and return one of its grants."""
    from django.core.management import call_command
    from django.test import Client as Browser

    from evidence.models.connections import Connection
    from evidence.models.grants import Grant

    printed = StringIO()
    words = [
        word for pk in Connection.unscoped.values_list("pk", flat=True)
        for word in ("--connection", pk)
    ]  # fmt: skip
    call_command("grant", "--client", "Bench", *words, "--json", stdout=printed)
    tokens = {each["resource"]: each["token"] for each in json.loads(printed.getvalue())["tokens"]}
    app = Browser(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {tokens['/v1']}")
    address = "/v1/streams/transactions/records?limit=100"
    for _ in range(READ_PAGES):
        body = app.get(address).json()
        if "next_cursor" not in body:
            break
        address = f"/v1/streams/transactions/records?limit=100&cursor={body['next_cursor']}"
    for number in range(READ_SEARCHES):
        app.get(f"/v1/search?q={WORDS[number % len(WORDS)]}&limit={number + 1}")
    return Grant.unscoped.order_by("issued_at")[0]


if __name__ == "__main__":
    main()
