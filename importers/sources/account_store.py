"""Store the accounts of live sources, and encrypt their credentials."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Case, F, QuerySet, Value, When

from evidence.access.sql import SQL, fetch_all
from evidence.models.connections import Connection
from evidence.write.sealed_values import reencrypt_rows, seal_texts, unseal_texts
from importers.models import SourceAccount, SyncedItem

PURPOSE = "source credential"
SYNCED_STATUSES = (Connection.Status.ACTIVE, Connection.Status.DRAFT)


def create_account(
    connection_id: str,
    *,
    source_name: str,
    settings: Mapping[str, Any],
    credential: Mapping[str, str],
    is_mirror: bool,
    now: datetime,
) -> SourceAccount:
    """Let a source keep a connection up to date; its first run is due now.

    An account that the connection had before is replaced, and its state with it.
    """
    account, _ = SourceAccount.unscoped.update_or_create(
        connection_id=connection_id,
        defaults={
            "source_name": source_name,
            "settings": dict(settings),
            "credential": _seal(credential, connection_id),
            "is_mirror": is_mirror,
            "state": {},
            "due_at": now,
            "failures": 0,
            "problem": None,
            "created_at": now,
        },
    )
    return account


def find_account(connection_id: str, *, owner_id: str) -> SourceAccount | None:
    for account in _accounts(owner_id).filter(connection_id=connection_id):
        return account
    return None


def list_accounts(owner_id: str) -> Sequence[SourceAccount]:
    """Return the accounts of connections that are not revoked, by name."""
    rows = _accounts(owner_id).exclude(connection__status=Connection.Status.REVOKED)
    return list(rows.order_by("connection__display_name", "connection_id"))


DUE_ACCOUNTS = """
-- Return accounts of any owner to read now, which do not run. One query across owners.
-- Owners take turns: first one account of each owner, the one that waits longest, then a second one.
-- Parameters: owners and connections that run, now, statuses, whether to return accounts never read, limit.
SELECT owner_id, connection_id, is_first
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY owner_id ORDER BY is_running DESC, due_at, connection_id
    ) AS turn
    FROM (
        SELECT a.owner_id, a.connection_id, a.due_at, a.succeeded_at IS NULL AS is_first,
            (a.owner_id, a.connection_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
                AS is_running
        FROM importers_sourceaccount AS a
        JOIN evidence_connection AS c
            ON c.owner_id = a.owner_id AND c.connection_id = a.connection_id
        WHERE a.due_at <= %s AND a.credential IS NOT NULL AND c.status = ANY(%s)
    ) AS due
) AS placed
WHERE NOT is_running AND (%s OR NOT is_first)
ORDER BY turn, due_at, connection_id
LIMIT %s
"""


class AccountKey(NamedTuple):
    """The connections of two owners may have the same id."""

    owner_id: str
    connection_id: str


class DueAccount(NamedTuple):
    """An account to read now. ``is_first``: it was never read completely."""

    key: AccountKey
    is_first: bool


def due_accounts(
    *,
    now: datetime,
    running: Collection[AccountKey] = (),
    most: int | None = None,
    with_first: bool = True,
) -> Sequence[DueAccount]:
    """Return accounts of any owner to read now, besides the connections that are ``running``.

    Those that were never read are left out unless ``with_first``. One query.
    """
    statuses = [str(status) for status in SYNCED_STATUSES]
    running_ids = [each.owner_id for each in running], [each.connection_id for each in running]
    rows = fetch_all(SQL(DUE_ACCOUNTS, (*running_ids, now, statuses, with_first, most)))
    return [DueAccount(AccountKey(owner_id, pk), is_first) for owner_id, pk, is_first in rows]


def _accounts(owner_id: str) -> QuerySet[SourceAccount]:
    rows = SourceAccount.unscoped.select_related("connection__source")
    return rows.filter(connection__owner_id=owner_id)


def set_credential(
    connection_id: str, credential: Mapping[str, str] | None, *, now: datetime
) -> None:
    """Replace the credential, or remove it; with a new one, the account is due now."""
    sealed = None if credential is None else _seal(credential, connection_id)
    rows = SourceAccount.unscoped.filter(connection_id=connection_id)
    rows.update(credential=sealed, failures=0, problem=None, due_at=now)


def update_credential(account: SourceAccount, credential: Mapping[str, str]) -> None:
    """Store renewed tokens, unless the owner removed or replaced the credential meanwhile."""
    sealed = _seal(credential, account.connection_id)
    rows = SourceAccount.unscoped.filter(connection_id=account.connection_id)
    rows.filter(credential=account.credential).update(credential=sealed)
    account.credential = sealed


def _seal(credential: Mapping[str, str], connection_id: str) -> bytes:
    return seal_texts(credential, purpose=PURPOSE, row_id=connection_id)


def open_credential(account: SourceAccount) -> dict[str, str]:
    """Decrypt the credential. Raises ``SealedError``."""
    return unseal_texts(account.credential, purpose=PURPOSE, row_id=account.connection_id)


def reencrypt() -> int:
    """Encrypt all credentials with the current key, and return the number of changed ones."""
    rows = SourceAccount.unscoped.filter(credential__isnull=False)
    return reencrypt_rows(rows, "credential", purpose=PURPOSE)


def count_credentials() -> int:
    return SourceAccount.unscoped.filter(credential__isnull=False).count()


@transaction.atomic
def change_settings(
    account: SourceAccount,
    *,
    settings: Mapping[str, Any],
    is_mirror: bool,
    removed: Collection[str],
    now: datetime,
) -> None:
    """Save what the owner chose; the account is due now, and a run in progress stops.

    Containers with the names or titles in ``removed`` are read from their beginning if the owner
    chooses them again. Their records stay.
    """
    row = SourceAccount.unscoped.select_for_update().get(connection_id=account.connection_id)
    row.state = {
        name: {key: each for key, each in member.items() if key not in removed}
        if isinstance(member, dict)
        else member
        for name, member in row.state.items()
    }
    row.settings, row.is_mirror, row.due_at, row.failures = dict(settings), is_mirror, now, 0
    row.version += 1
    row.save(update_fields=["state", "settings", "is_mirror", "due_at", "failures", "version"])
    items = SyncedItem.unscoped.filter(connection_id=account.connection_id)
    items.filter(container__in=removed).delete()


def postpone(account: SourceAccount, due_at: datetime) -> None:
    SourceAccount.unscoped.filter(connection_id=account.connection_id).update(due_at=due_at)


def sync_now(connection_id: str, *, now: datetime) -> None:
    SourceAccount.unscoped.filter(connection_id=connection_id).update(due_at=now)


def finish_run(
    account: SourceAccount,
    *,
    due_at: datetime,
    last_run: Mapping[str, Any],
    problem: Mapping[str, Any] | None,
    failures: int,
    succeeded_at: datetime | None,
) -> None:
    """Save the outcome of a run. ``succeeded_at`` stays as it was where it is None.

    An account that became due during the run, as when its owner chose to sync now, stays due.
    """
    rows = SourceAccount.unscoped.filter(connection_id=account.connection_id)
    values: dict[str, Any] = {} if succeeded_at is None else {"succeeded_at": succeeded_at}
    rows.update(
        due_at=Case(When(due_at=account.due_at, then=Value(due_at)), default=F("due_at")),
        last_run=last_run,
        problem=problem,
        failures=failures,
        **values,
    )
