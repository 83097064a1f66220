"""``manage.py sync``, and what happens to accounts around it."""

import io
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from time_machine import Traveller

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.models.connections import Connection
from evidence.write.record_erasure import erase_connection
from evidence.write.sealed_values import SealedError
from importers.models import SourceAccount, SyncedItem
from importers.sources import account_store
from importers.sources.runner import read_accounts
from tests.importers.dovecot import PASSWORD, Dovecot, message, messages, run_dovecot
from tests.importers.imports import records
from tests.importers.syncing import account_of, connect, kill_sync, run_sync
from tests.world import World

USER = "ida@mail.example"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.authority))
        yield dovecot


def sync_command(*names: str, **options: Any) -> str:
    out = StringIO()
    call_command("sync", *names, stdout=out, stderr=out, **options)
    return out.getvalue()


@pytest.mark.django_db
def test_command_connects_and_syncs(server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    server.append(USER, message(1), message(2))
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    settings = [f"user={USER}", "host=localhost", f"port={server.port}"]

    said = sync_command(connect="imap", set=settings, private=True)
    server.append(USER, message(3))
    again = sync_command(USER)

    assert "2 new" in said
    assert "1 new" in again
    assert len(records("messages")) == 3
    assert PASSWORD not in said + again
    assert PASSWORD.encode() not in bytes(SourceAccount.unscoped.get().credential or b"")


@pytest.mark.slow
@pytest.mark.django_db
def test_paused_connection_and_removed_password_are_not_read(server: Dovecot) -> None:
    pk = connect(server, USER)
    Connection.unscoped.filter(pk=pk).update(status=Connection.Status.PAUSED)
    due = [each.key.connection_id for each in account_store.due_accounts(now=timezone.now())]
    with pytest.raises(CommandError, match="paused"):
        sync_command(pk)
    Connection.unscoped.filter(pk=pk).update(status=Connection.Status.ACTIVE)
    account_store.set_credential(pk, None, now=timezone.now())
    due += [each.key.connection_id for each in account_store.due_accounts(now=timezone.now())]

    assert due == []
    with pytest.raises(CommandError, match="Enter one"):
        sync_command(pk)


@pytest.mark.slow
@pytest.mark.django_db
def test_credential_is_bound_to_its_connection_and_survives_a_new_key(
    server: Dovecot, settings: Any
) -> None:
    pk, other = connect(server, USER), connect(server, "bob@mail.example")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a new secret of this installation, long enough"
    assert account_store.reencrypt() == 2
    settings.SECRET_KEY_FALLBACKS = []

    moved = account_of(other)
    moved.credential = account_of(pk).credential

    assert account_store.open_credential(account_of(pk)) == {"password": PASSWORD}
    with pytest.raises(SealedError):
        account_store.open_credential(moved)


@pytest.mark.slow
@pytest.mark.django_db
def test_erased_connection_leaves_no_account(server: Dovecot) -> None:
    server.append(USER, message(1))
    pk = connect(server, USER)
    run_sync(pk)

    erase_connection(pk)

    assert not SourceAccount.unscoped.exists()
    assert not SyncedItem.unscoped.exists()


def read_when_due(pk: str) -> None:
    """Run the worker until it has read the account."""
    before = account_of(pk).last_run
    list(read_accounts())
    assert account_of(pk).last_run != before


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_new_mail_is_shown_to_a_granted_client_a_minute_later(
    committed: World, server: Dovecot, time_machine: Traveller
) -> None:
    server.append(USER, message(1))
    pk = connect(server, USER)
    read_when_due(pk)
    streams = [StreamRequest(name="messages", fields=("id", "subject"))]
    committed.grant("reader", GrantRequest(connection_ids=[pk], streams=streams))
    path, query = "/v1/streams/messages/records", {"connection_id": pk}
    query["changes_since"] = committed.get(path, "reader", **query, changes_since="beginning").body[
        "next_changes_since"
    ]
    assert list(account_store.due_accounts(now=timezone.now())) == []

    server.append(USER, message(2))
    time_machine.move_to(timezone.now() + timedelta(seconds=70))
    read_when_due(pk)

    changes = committed.get(path, "reader", **query).body["data"]
    assert [each["data"]["subject"] for each in changes] == ["Letter 2"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_killed_run_continues_without_loss_or_duplicate(server: Dovecot) -> None:
    server.fill(USER, messages(range(1_500)))
    pk = connect(server, USER)
    counts = []
    while account_of(pk).problem is None and not account_of(pk).succeeded_at:
        kill_sync(pk)
        state = account_of(pk).state.get("folders", {}).get("INBOX", {})
        items = SyncedItem.unscoped.filter(connection_id=pk)
        assert items.count() == state.get("next_uid", 1) - 1
        counts.append(items.count())
        if len(counts) == 2:
            break
    run_sync(pk)

    assert counts[0] < 1_500
    assert counts == sorted(counts)
    subjects = [each["subject"] for each in records("messages")]
    assert sorted(subjects) == sorted(f"Letter {number}" for number in range(1_500))
