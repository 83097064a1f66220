"""Say in words how an account does: its last and next run, what came, and what failed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from evidence.advisory_locks import is_locked
from evidence.models.connections import Connection
from importers.core.source import ProblemCode, SourceError
from importers.models import SourceAccount
from importers.sources import oauth
from importers.sources.account_store import DAILY_LIMIT, is_limit_reached, needs_owner
from importers.sources.runner import lock_name
from importers.sources.sync_batch import count_items

STALE_AFTER = timedelta(hours=24)


def is_stale(account: SourceAccount, *, now: datetime) -> bool:
    """Return whether an account that is not paused has not been read for a day.

    One that is read for the first time, or waits for its daily limit, takes as long as it takes.
    """
    last, finished_at = last_time(account), account.last_run.get("finished_at")
    if account.problem is None and finished_at:
        last = datetime.fromisoformat(finished_at)
    return not is_paused(account) and now - last > STALE_AFTER


def last_time(account: SourceAccount) -> datetime:
    """Return when the account was last read completely, or else connected."""
    return account.succeeded_at or account.created_at


def is_paused(account: SourceAccount) -> bool:
    return bool(account.connection.status == Connection.Status.PAUSED)


@dataclass(frozen=True, slots=True)
class Notice:
    """What the home page shows. A notification announces it once per ``key``, with ``summary``.

    The summary has no name that the owner gave, and nothing that a server said. Without a key,
    there is no notification.
    """

    key: str
    text: str
    link: str
    summary: str = ""


def notice(account: SourceAccount, *, now: datetime) -> Notice | None:
    """Return what the owner should know of an account: it needs them, or was not read for a day."""
    asked, problem = account.held_deletions, account.problem
    line, name = problem_line(account), account.connection.display_name
    since = f"{problem['code']} {problem['since']}" if problem is not None else ""
    if is_paused(account):
        return None
    if account.credential is None:
        return Notice("", f"{name}: {line}", "Mend it")
    if asked is not None:
        key, summary = f"deletions {asked['since']}", "Deletions wait for your decision."
        return Notice(key, f"{name}: {question(account)}", "Decide", summary)
    summary = "" if problem is None else ProblemCode(problem["code"]).text.problem
    if needs_owner(problem):
        return Notice(since, f"{name}: {line}", "Mend it", summary)
    if is_stale(account, now=now):
        days = max(1, (now - last_time(account)).days)
        text = f"{name} was not read for {days} day{'s' if days > 1 else ''}."
        return Notice(since, " ".join(filter(None, (text, line))), "See why", summary)
    return None


def container_title(title: str) -> str:
    return "Inbox" if title.lower() == "inbox" else title


def question(account: SourceAccount) -> str | None:
    """Return what the owner is asked about deletions, if anything."""
    if account.held_deletions is None:
        return None
    losses = ", ".join(
        f"{lost:,} of {total:,} records of {container_title(name)}"
        for name, lost, total in account.held_deletions["containers"]
    )
    since = datetime.fromisoformat(account.held_deletions["since"])
    return (
        f"The account no longer has {losses}, since {timezone.localtime(since):%A, %-d %B}. Nothing is deleted here"
        " until you choose."
    )


def problem_line(account: SourceAccount) -> str | None:
    """Return what is wrong, whose side it is on, since when, and what to do."""
    if account.credential is None:
        if oauth.SETTING in account.settings:
            return "You signed out. Sign in again to go on."
        return "There is no password. Enter one to go on."
    if account.problem is None:
        return None
    text = ProblemCode(account.problem["code"]).text
    since = _format_time(datetime.fromisoformat(account.problem["since"]))
    problem = _with_detail(text.problem, account.problem["detail"])
    return f"{problem} Since {since}. The cause is {text.side}. {text.next_step}"


def explain(error: SourceError) -> str:
    """Return what is wrong and what to do, for an error at once."""
    text = error.code.text
    return f"{_with_detail(text.problem, error.detail)} {text.next_step}"


def _with_detail(problem: str, detail: str) -> str:
    return f"{problem.removesuffix('.')} ({detail})." if detail else problem


def _format_time(moment: datetime) -> str:
    """Return ``30 November 2026, 18:03``, in the owner's time zone on pages and in UTC elsewhere."""
    return f"{timezone.localtime(moment):%-d %B %Y, %H:%M}"


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


def skipped_line(account: SourceAccount) -> str | None:
    """Return what the account has and its source does not read, the most frequent kinds first."""
    counts = sorted(account.last_run.get("skipped", {}).items(), key=lambda each: -each[1])
    return ", ".join(f"{count:,} {kind}" for kind, count in counts) or None


def next_run(account: SourceAccount, *, now: datetime) -> str:
    """Return when the account is read next."""
    if is_paused(account):
        return "paused"
    if account.credential is None:
        is_signed_out = oauth.SETTING in account.settings
        return "not before you sign in" if is_signed_out else "not without a password"
    if is_locked(lock_name(account.connection_id)):
        return "running now"
    at = "now" if account.due_at <= now else _format_time(account.due_at)
    if is_limit_reached(account, now=now):
        return f"{at}: the limit of {account.settings[DAILY_LIMIT]:,} MB a day is reached"
    return at


def status_lines(account: SourceAccount, *, now: datetime) -> Iterator[str]:
    """Yield the lines about an account for a terminal."""
    yield f"{account.connection.display_name} ({account.connection_id}), {account.source_name}"
    yield f"  {count_items(account.connection_id):,} items known"
    last = account.succeeded_at
    yield f"  last read: {_format_time(last) if last else 'never'}"
    yield f"  next run: {next_run(account, now=now)}"
    if skipped := skipped_line(account):
        yield f"  not read: {skipped}"
    for line in (result_line(account), problem_line(account), question(account)):
        if line:
            yield f"  {line}"
