"""Store the accounts of live sources, their encrypted credentials, and what their runs did.

Some providers limit how much an account reads on a day (UTC); the next run waits for the next day.
"""

import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Case, F, QuerySet, Value, When
from django.utils import timezone

from evidence.access.sql import SQL, fetch_all
from evidence.models.connections import Connection
from evidence.write.ingest import IngestResult
from evidence.write.sealed_values import reencrypt_rows, seal_texts, unseal_texts
from importers.core.results import ReceiptCode
from importers.core.source import ProblemCode, SourceError
from importers.models import SourceAccount, SyncedItem
from importers.registry import find_source

PURPOSE = "source credential"
SYNCED_STATUSES = (Connection.Status.ACTIVE, Connection.Status.DRAFT)
DAILY_LIMIT = "daily_megabytes"
"""The setting of an account that reads at most so much on a day."""
JITTER = 0.1
"""Share by which intervals differ, so that accounts do not all start at once."""
SPREAD = timedelta(minutes=5)
FIRST_DELAY = timedelta(minutes=1)
MAX_DELAY = timedelta(hours=6)
MAX_NOTES = 50

logger = logging.getLogger(__name__)


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
    return _accounts(owner_id).filter(connection_id=connection_id).first()


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


def set_due(connection_id: str, due_at: datetime) -> None:
    SourceAccount.unscoped.filter(connection_id=connection_id).update(due_at=due_at)


def is_limit_reached(account: SourceAccount, *, now: datetime, more: int = 0) -> bool:
    """Return whether an account that reads ``more`` bytes must wait for the next day."""
    megabytes = account.settings.get(DAILY_LIMIT)
    return bool(megabytes) and _bytes_of(account, now) + more >= megabytes * 1_000_000


def traffic_with(account: SourceAccount, size: int, *, now: datetime) -> Mapping[str, Any]:
    """Return the traffic of the account with ``size`` more bytes."""
    return {"day": now.date().isoformat(), "bytes": _bytes_of(account, now) + size}


def _bytes_of(account: SourceAccount, now: datetime) -> int:
    is_today = account.traffic.get("day") == now.date().isoformat()
    return int(account.traffic["bytes"]) if is_today else 0


@dataclass(slots=True)
class RunReport:
    """What a run did, for the owner's pages. ``notes`` are items that were not stored whole.

    ``skipped`` are counts of what the source does not read, by kind.
    """

    started_at: str
    finished_at: str = ""
    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    files: int = 0
    left_out: int = 0
    done: int = 0
    total: int = 0
    is_complete: bool = False
    notes: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def add(self, result: IngestResult) -> None:
        self.created += result.created
        self.updated += result.updated
        self.deleted += result.deleted
        self.unchanged += result.unchanged

    def note(self, location: str, code: ReceiptCode, detail: str = "") -> None:
        text = code.text
        self.left_out += not text.is_imported
        if len(self.notes) < MAX_NOTES:
            self.notes.append(" ".join(filter(None, (f"{location}: {text.problem}", detail))))


def finish_run(
    account: SourceAccount,
    report: RunReport,
    stopped_at: list[str] | None,
    error: SourceError | None,
) -> None:
    """Save the outcome of a run, and plan the next one. ``stopped_at``: the item that ended it.

    An account that became due during the run, as when its owner chose to sync now, stays due.
    """
    now = timezone.now()
    report.finished_at = now.isoformat()
    source = find_source(account.source_name)
    problem, failures, delay = None, 0, MAX_DELAY if source is None else source.interval
    is_failure = error is not None and error.code is not ProblemCode.CONTAINER_MISSING
    if error is not None:
        problem = _problem(account.problem or {}, error, stopped_at, now)
        logger.warning("a sync of %s failed: %s", account.connection_id, error.code)
    if is_failure:
        failures = account.failures + 1
        delay = min(MAX_DELAY, FIRST_DELAY * 2 ** min(failures - 1, 10))
        if needs_owner(problem):
            delay = MAX_DELAY
    elif not report.is_complete:
        delay = timedelta()
    due_at = now + delay * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    if is_limit_reached(account, now=now):
        due_at = max(due_at, next_day(now))
    succeeded = {"succeeded_at": now} if report.is_complete and not is_failure else {}
    SourceAccount.unscoped.filter(connection_id=account.connection_id).update(
        due_at=Case(When(due_at=account.due_at, then=Value(due_at)), default=F("due_at")),
        last_run=asdict(report),
        problem=problem,
        failures=failures,
        **succeeded,
    )


def next_day(now: datetime) -> datetime:
    """Return when an account continues that has read its daily limit."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), tzinfo=now.tzinfo)
    return midnight + SPREAD * random.random()  # noqa: S311 - no secret


def needs_owner(problem: Mapping[str, Any] | None) -> bool:
    """Return whether trying again changes nothing until the owner acts."""
    return problem is not None and ProblemCode(problem["code"]).text.needs_owner


def _problem(
    before: dict[str, Any], error: SourceError, stopped_at: list[str] | None, now: datetime
) -> dict[str, Any]:
    """Return what to tell the owner, since when, and which items to skip.

    An item is skipped after the source ended twice while it parsed it.
    """
    skip = before.get("skip", [])
    if stopped_at is not None and before.get("stopped_at") == stopped_at:
        skip = [*skip, stopped_at]
    return {
        "code": str(error.code),
        "detail": error.detail,
        "since": before["since"] if before.get("code") == error.code else now.isoformat(),
        "stopped_at": stopped_at,
        "skip": skip,
    }
