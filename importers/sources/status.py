"""Say in words how an account does: its last and next run, what came, and what failed."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from evidence.advisory_locks import is_locked
from evidence.models.connections import Connection
from evidence.models.source_accounts import SourceAccount
from evidence.storing.synced_batches import count_items
from importers.core.source import PROBLEM_TEXTS, ProblemCode
from importers.sources.runner import lock_name

STALE_AFTER = timedelta(hours=24)


def is_stale(account: SourceAccount, *, now: datetime) -> bool:
    """Return whether an account that is not paused has not been read for a day."""
    return not is_paused(account) and now - last_time(account) > STALE_AFTER


def needs_owner(account: SourceAccount) -> bool:
    """Return whether trying again changes nothing until the owner acts."""
    if is_paused(account):
        return False
    code = None if account.problem is None else ProblemCode(account.problem["code"])
    return account.credential is None or (code is not None and PROBLEM_TEXTS[code].needs_owner)


def last_time(account: SourceAccount) -> datetime:
    """Return when the account was last read completely, or else connected."""
    return account.succeeded_at or account.created_at


def is_paused(account: SourceAccount) -> bool:
    return account.connection.status == Connection.Status.PAUSED


def problem_line(account: SourceAccount) -> str | None:
    """Return what is wrong, whose side it is on, since when, and what to do."""
    if account.credential is None:
        return "There is no password. Enter one to go on."
    if account.problem is None:
        return None
    text = PROBLEM_TEXTS[ProblemCode(account.problem["code"])]
    since = datetime.fromisoformat(account.problem["since"])
    detail = f" ({account.problem['detail']})" if account.problem["detail"] else ""
    return (
        f"{text.problem}{detail} Since {since:%A, %-d %B, %H:%M} UTC. The cause is {text.side}."
        f" {text.next_step}"
    )


def result_line(account: SourceAccount) -> str | None:
    """Return what the last run did, or None before the first one."""
    run = account.last_run
    if not run:
        return None
    counts = (
        f"{run['created']:,} new, {run['updated']:,} changed, {run['deleted']:,} deleted,"
        f" {run['files']:,} attachments, {run['left_out']:,} not stored"
    )
    if run["is_complete"] or not run["total"]:
        return counts
    return f"{counts}; {run['done']:,} of {run['total']:,} read, continues by itself"


def next_run(account: SourceAccount, *, now: datetime) -> str:
    """Return when the account is read next."""
    if is_paused(account):
        return "paused"
    if account.credential is None:
        return "not without a password"
    if is_locked(lock_name(account.connection_id)):
        return "running now"
    return "now" if account.due_at <= now else f"{account.due_at:%-d %B, %H:%M} UTC"


def status_lines(account: SourceAccount, *, now: datetime) -> Iterator[str]:
    """Yield the lines about an account for a terminal."""
    yield f"{account.connection.display_name} ({account.connection_id}), {account.source_name}"
    yield f"  {count_items(account.connection_id):,} items known"
    last = account.succeeded_at
    yield f"  last read: {f'{last:%-d %B %Y, %H:%M} UTC' if last else 'never'}"
    yield f"  next run: {next_run(account, now=now)}"
    for line in (result_line(account), problem_line(account)):
        if line:
            yield f"  {line}"
