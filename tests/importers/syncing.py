"""Helpers that connect an account and sync it."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.utils import timezone

from evidence.advisory_locks import is_locked
from evidence.models.owners import get_or_create_owner
from importers.models import SourceAccount, SyncedItem
from importers.registry import find_source
from importers.sources.accounts import connect_account, list_containers, parse_details
from importers.sources.runner import RunReport, lock_name, sync
from tests.importers.dovecot import PASSWORD, Dovecot
from tests.pdpp_site.installation import START_SECONDS
from tests.write.processes import environment

ROOT = Path(__file__).resolve().parent.parent.parent


def details(server: Dovecot, user: str, **values: str) -> Any:
    entered = {"user": user, "password": PASSWORD, "host": "localhost", "port": str(server.port)}
    return details_of("imap", **entered | values)


def details_of(name: str, **values: str) -> Any:
    source = find_source(name)
    assert source is not None
    return parse_details(source, {"allows_private": "yes", **values})


def connect(server: Dovecot, user: str, *, is_mirror: bool = False, **values: Any) -> str:
    """Connect a mailbox with its usual folders, and return the id of the connection."""
    options = {name: values.pop(name, None) for name in ("folders", "connection_id")}
    return connect_details(details(server, user, **values), is_mirror=is_mirror, **options)


def connect_details(
    found: Any, *, folders: Any = None, connection_id: Any = None, is_mirror: bool = False
) -> str:
    """Connect an account with what is usual, and return the id of the connection."""
    now = timezone.now()
    chosen = folders or [each.name for each in list_containers(found, now=now) if each.is_usual]
    account = connect_account(
        found,
        containers=chosen,
        connection_id=connection_id,
        is_mirror=is_mirror,
        owner_id=get_or_create_owner(now).owner_id,
        now=now,
    )
    return account.connection_id


def run_sync(connection_id: str, **options: Any) -> RunReport:
    report = sync(connection_id, owner_id=get_or_create_owner(timezone.now()).owner_id, **options)
    assert report is not None
    return report


def account_of(connection_id: str) -> SourceAccount:
    return SourceAccount.unscoped.get(connection_id=connection_id)


def kill_sync(pk: str) -> None:
    """Run the command in a process of its own, and kill it when it has stored an item."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "sync", pk],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_progress(pk, process)
    finally:
        process.kill()
        process.wait()
    # The database notices only when it next writes to the process, and until then holds its lock.
    deadline = time.monotonic() + START_SECONDS
    while is_locked(lock_name(pk)):
        assert time.monotonic() < deadline, "the lock of a killed run is not released"
        time.sleep(0.02)


def _wait_for_progress(pk: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the process has stored an item, or has read everything."""
    items = SyncedItem.unscoped.filter(connection_id=pk)
    before, deadline = items.count(), time.monotonic() + START_SECONDS
    while items.count() == before:
        if (code := process.poll()) is not None:
            assert code == 0
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)
