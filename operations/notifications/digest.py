"""Say in words what apps read in the month before: counts by app and source, and no content."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from evidence.access.grant_text import join_words
from evidence.access.owner_notices import client_names, grants_by_source
from evidence.ledger.disclosures import ReadTotals, read_totals
from evidence.models.notifications import NotificationKind as Kind
from evidence.storing.notifications import is_announced
from operations.notifications.notices import Notice, plain_name, quote_name

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
