"""Find what the owner should be told: what needs them now, and what apps read in the month before.

No sentence contains a name that the owner gave, text of a record, or text of another server. Names of
apps are chosen by strangers, and so lose whatever a reader of messages would turn into a link.
"""

import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from evidence.access.grant_text import format_day, join_words
from evidence.access.owner_notices import (
    client_names,
    ending_grants,
    grants_by_source,
    new_access,
    open_alerts,
)
from evidence.access.permission_requests import open_requests
from evidence.ledger.disclosures import ReadTotals, read_totals
from evidence.models.notifications import NotificationKind as Kind
from evidence.storing import backup_plans
from evidence.storing.notifications import is_announced
from evidence.storing.source_accounts import list_accounts
from importers.runs.store import stopped_runs
from importers.sources import status

MAX_AGE = timedelta(days=2)
"""What happened earlier is not announced any more; the pages still show it."""
ENDING_SOON = timedelta(days=3)
MAX_NAME_CHARS = 40
MAX_SOURCES = 5
HOME, APPS = "/", "/connected"


class Notice(NamedTuple):
    """The arguments of ``notify``."""

    kind: Kind
    key: str
    text: str
    path: str


def quote_name(name: str) -> str:
    """Return an app's name in quotes, with letters, digits, spaces and hyphens only."""
    return f"“{plain_name(name)}”"


def plain_name(name: str) -> str:
    """Return a name without what a reader could turn into a link or markup, in 40 characters."""
    kept = (char if _is_plain(char) else " " for char in name[: 4 * MAX_NAME_CHARS])
    words = " ".join("".join(kept).split())
    return words if len(words) <= MAX_NAME_CHARS else f"{words[:MAX_NAME_CHARS].rstrip()}…"


def _is_plain(char: str) -> bool:
    return char == "-" or unicodedata.category(char)[0] in "LMN"


def current_notices(owner_id: str, *, now: datetime) -> Iterator[Notice]:
    """Yield everything to announce, whether it was announced before or not. About ten queries."""
    yield from _apps(owner_id, now)
    yield from _grants(owner_id, now)
    for run in stopped_runs(owner_id, since=now - MAX_AGE):
        text = "An import stopped before its end."
        yield Notice(Kind.FAILED_IMPORT, run.run_id, text, "/admin/evidence/importrun/")
    if (problem := backup_plans.get_plan(owner_id).problem) is not None:
        # Once a day for each kind of failure, although the backup is tried every hour.
        key = f"{problem['code']} {problem['at'][:10]}"
        text = "A backup failed. The page Backups says why."
        yield Notice(Kind.FAILED_BACKUP, key, text, "/backups")
    for account in list_accounts(owner_id):
        notice = status.notice(account, now=now)
        if notice is not None and notice.key:
            source = plain_name(account.connection.source.display_name)
            text = f"A live account of {source} does not sync. {notice.summary}".strip()
            key, path = f"{account.pk} {notice.key}", f"/accounts/{account.pk}"
            yield Notice(Kind.STOPPED_ACCOUNT, key, text, path)


def _apps(owner_id: str, now: datetime) -> Iterator[Notice]:
    for access in new_access(owner_id, since=now - MAX_AGE):
        text = f"{quote_name(access.client)} may now read {_join_sources(access.sources)}."
        yield Notice(Kind.NEW_APP, access.package_id, text, APPS)
    for alert in open_alerts(owner_id):
        if alert.at >= now - MAX_AGE:
            read = alert.reading
            text = (
                f"{quote_name(alert.client)} was paused automatically: it read {read.seen:,} of"
                f" {read.total:,} records of {plain_name(alert.source)} within {read.hours} hours."
                " It reads nothing until you resume it."
            )
            yield Notice(Kind.TRIPWIRE, str(alert.alert_id), text, APPS)


def _join_sources(sources: tuple[str, ...]) -> str:
    names = [plain_name(each) for each in sources[:MAX_SOURCES]]
    more = len(sources) - len(names)
    return join_words([*names, f"{more} more"] if more else names)


def _grants(owner_id: str, now: datetime) -> Iterator[Notice]:
    for request in open_requests(owner_id, now=now):
        app, source = request.grant.package.client.display_name, request.grant.source.display_name
        text = (
            f"{quote_name(app)} asks to read more of {plain_name(source)}. It reads nothing more"
            f" until you answer, by {request.expires_at:%H:%M} UTC."
        )
        yield Notice(Kind.PERMISSION_REQUEST, request.pk, text, HOME)
    for grant in ending_grants(owner_id, within=ENDING_SOON, now=now, only_longer=True):
        app, source = grant.package.client.display_name, grant.source.display_name
        if grant.expires_at is not None:
            day = format_day(grant.expires_at)
            text = f"Access of {quote_name(app)} to {plain_name(source)} ends on {day}."
            yield Notice(Kind.GRANT_ENDING, grant.pk, text, APPS)


MAX_APPS = 15
ACTIVITY = "/admin/evidence/connection/disclosures/"


def monthly_digest(owner_id: str, *, since: datetime, now: datetime) -> Iterator[Notice]:
    """Yield the digest of the month before (UTC) once, unless that ended before ``since``."""
    end = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    start = (end - timedelta(days=1)).replace(day=1)
    key = f"{start:%Y-%m}"
    if since >= end or is_announced(Kind.DIGEST, key, owner_id=owner_id):
        return
    grants = grants_by_source(owner_id)
    text = _text(grants, start, end, names=client_names(owner_id))
    yield Notice(Kind.DIGEST, key, text, ACTIVITY)


def _text(
    grants: dict[str, list[str]], start: datetime, end: datetime, *, names: dict[str, str]
) -> str:
    """Return one line per app. One query per source."""
    read: dict[str, list[str]] = {}
    for source, grant_ids in grants.items():
        for client_id, totals in read_totals(grant_ids, since=start, until=end).items():
            read.setdefault(client_id, []).append(_describe(source, totals))
    if not read:
        return f"In {start:%B %Y}, no app read anything."
    lines = [
        f"{quote_name(names[client_id])} read {join_words(parts)}."
        for client_id, parts in sorted(read.items(), key=lambda it: names[it[0]].casefold())
    ]
    if len(lines) > MAX_APPS:
        lines[MAX_APPS:] = [f"{len(lines) - MAX_APPS} more apps read something."]
    return "\n".join([f"What apps read in {start:%B %Y}:", *lines])


def _describe(source: str, totals: ReadTotals) -> str:
    records = "1 record" if totals.records == 1 else f"{totals.records:,} records"
    answers = "1 answer" if totals.answers == 1 else f"{totals.answers:,} answers"
    return f"{records} of {plain_name(source)} in {answers}"
