"""Mail that arrives is read at once where the server reports changes (IDLE)."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.models.connections import Connection
from importers.core.watch_process import WatchProcess
from importers.mail import imap_idle
from importers.models import SyncedItem
from importers.sources import account_store, background
from importers.sources.background import AccountWatches, SyncWorker
from importers.sources.runner import open_account
from tests.importers.cutting_proxy import cutting_proxy
from tests.importers.dovecot import Dovecot, message, run_dovecot
from tests.importers.imports import records
from tests.importers.syncing import account_of, connect, run_sync
from tests.world import World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

USER = "ida@mail.example"
PATIENCE = 60.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.authority))
        yield dovecot


@pytest.fixture
def account(committed: World, server: Dovecot) -> str:
    """A mailbox that was read once, and a client that may read its messages."""
    server.append(USER, message(1))
    pk = connect(server, USER)
    run_sync(pk)
    streams = [StreamRequest(name="messages", fields=("id", "subject"))]
    committed.grant("reader", GrantRequest(connection_ids=[pk], streams=streams))
    return pk


@contextmanager
def background_jobs() -> Iterator[AccountWatches]:
    """Run what `manage.py run` does for live accounts, in a thread."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(0.1):
            list(watched.watches())
            list(worker.sources())
        connection.close()

    with closing(AccountWatches(may_run=lambda: True)) as watched, closing(SyncWorker()) as worker:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield watched
        finally:
            stopped.set()
            thread.join()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def until_watched(pk: str) -> Iterator[None]:
    """After the block, wait for a watch that began since: it has the account read once."""
    before = account_of(pk).last_run
    yield
    wait_until(lambda: account_of(pk).last_run != before and not is_due(pk))


def is_due(pk: str) -> bool:
    return account_of(pk).due_at <= timezone.now()


def test_new_mail_is_visible_to_a_granted_client_without_waiting(
    committed: World, server: Dovecot, account: str
) -> None:
    path = "/v1/streams/messages/records"
    query = {"connection_id": account, "changes_since": "beginning"}
    bookmark = committed.get(path, "reader", **query).body["next_changes_since"]

    def changes() -> list[str]:
        body = committed.get(path, "reader", **query | {"changes_since": bookmark}).body
        return [each["data"]["subject"] for each in body["data"]]

    with ExitStack() as stack:
        with until_watched(account):
            stack.enter_context(background_jobs())
        assert changes() == []
        server.append(USER, message(2))
        wait_until(changes)

    assert changes() == ["Letter 2"]
    listed = committed.get(path, "reader").body["data"]
    assert [each["data"]["subject"] for each in listed] == ["Letter 1", "Letter 2"]


def test_killed_process_of_watches_starts_again(
    server: Dovecot, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FIRST_DELAY", timedelta(milliseconds=200))
    with ExitStack() as stack:
        with until_watched(account):
            stack.enter_context(background_jobs())
        first = process_of_watches()
        with until_watched(account):
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: process_of_watches() not in (first, None))
        server.append(USER, message(2))
        wait_until(lambda: len(letters()) == 2)


def test_dropped_connections_are_made_again_later(
    server: Dovecot, committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FIRST_DELAY", timedelta(milliseconds=200))
    with cutting_proxy(server.port) as proxy:
        pk = connect(server, USER, port=str(proxy.port))
        run_sync(pk)
        with ExitStack() as stack:
            with until_watched(pk):
                stack.enter_context(background_jobs())
            with until_watched(pk):
                proxy.drop_all()
            server.append(USER, message(1))
            wait_until(letters)


def test_many_accounts_share_one_process_until_they_are_paused(
    server: Dovecot, committed: World
) -> None:
    accounts = [connect(server, f"ida{number}@mail.example") for number in range(3)]
    for pk in accounts:
        run_sync(pk)
    with closing(AccountWatches(may_run=lambda: True)) as watched:
        started = list(watched.watches())
        wait_until(lambda: all(is_due(pk) for pk in accounts))
        processes = list(processes_of_watches())
        Connection.unscoped.filter(pk=accounts[0]).update(status=Connection.Status.PAUSED)
        account_store.set_credential(accounts[1], None, now=timezone.now())
        paused = list(watched.watches())

    assert (started, paused) == ([3], [1])
    assert len(processes) == 1


def test_process_that_does_not_lead_watches_nothing(account: str) -> None:
    with closing(AccountWatches(may_run=lambda: False)) as watched:
        assert list(watched.watches()) == [0]


def test_server_without_idle_reports_nothing(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_dovecot("imap_capability = IMAP4rev1 LITERAL+ SPECIAL-USE") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        pk = connect(server, USER)
        run_sync(pk)
        source, access = open_account(account_of(pk))
        with closing(WatchProcess()) as process, process.open(source, access) as session:
            assert list(session.changes()) == []


def test_account_without_changes_is_not_read_and_other_folders_are_noticed(
    server: Dovecot, committed: World
) -> None:
    """Rounds are short here; the process of a watch takes minutes for one."""
    server.append(USER, message(1), folder="Archive")
    client = server.sign_in(USER)
    client.select(readonly=True)
    rounds = imap_idle.changes(client.sock, [b"INBOX", b"Archive"], seconds=0.2)
    first = [next(rounds), next(rounds)]
    server.append(USER, message(2), folder="Archive")
    then = [next(rounds), next(rounds)]
    client.shutdown()

    assert (first, then) == ([True, False], [True, False])


def test_unchanged_account_rests_unless_deletions_wait(account: str) -> None:
    now = timezone.now()
    later = now + timedelta(hours=1)

    account_store.postpone_unchanged(account, later, now=now)
    rested = account_of(account).due_at
    account_store.postpone_unchanged(account, now, now=now + timedelta(hours=7))
    read_after_all = account_of(account).due_at
    SyncedItem.unscoped.update(gone_pass=1)
    account_store.postpone_unchanged(account, now, now=now)

    assert rested == read_after_all == account_of(account).due_at == later


def test_change_during_a_run_leaves_the_account_due(server: Dovecot, account: str) -> None:
    server.append(USER, message(2))

    def report(_done: int, _total: int) -> None:
        account_store.sync_now(account, now=timezone.now())

    run_sync(account, on_progress=report)
    due = is_due(account)
    run_sync(account)

    assert due
    assert not is_due(account)


def letters() -> list[str]:
    return [each["subject"] for each in records("messages") if "Letter" in each.get("subject", "")]


def processes_of_watches() -> Iterator[int]:
    """Yield the processes of this one that watch accounts."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            command = (path / "cmdline").read_bytes()
            if int(parent) == os.getpid() and b"watch_worker.py" in command:
                yield int(path.name)


def process_of_watches() -> int | None:
    return next(processes_of_watches(), None)
