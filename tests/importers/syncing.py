"""Helpers that connect an account and sync it."""

from typing import Any

from django.utils import timezone

from evidence.models.accounts import get_or_create_owner
from evidence.models.source_accounts import SourceAccount
from importers.sources.accounts import connect_account, list_containers, parse_details
from importers.sources.registry import installed_sources
from importers.sources.runner import RunReport, sync
from tests.importers.dovecot import PASSWORD, Dovecot


def details(server: Dovecot, user: str, **values: str) -> Any:
    (imap,) = (source for source in installed_sources() if source.name == "imap")
    entered = {
        "user": user,
        "password": PASSWORD,
        "host": "localhost",
        "port": str(server.port),
        "allows_private": "yes",
    }
    return parse_details(imap, entered | values)


def connect(server: Dovecot, user: str, *, is_mirror: bool = False, **values: Any) -> str:
    """Connect a mailbox with its usual folders, and return the id of the connection."""
    now = timezone.now()
    folders, connection_id = values.pop("folders", None), values.pop("connection_id", None)
    found = details(server, user, **values)
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
