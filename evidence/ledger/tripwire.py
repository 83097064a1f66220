"""The tripwire: a grant through which too much of a stream was read in a while pauses by itself.

Each answer takes what it showed off a number that is kept for the grant and the stream, in the very
statement that writes the answer down. Only when that number is used up it is counted, in the ledger,
how many different records the last hours have shown, and in the stream, how many there are; what is
missing to the share is the next number. So the share is never passed unseen, and the count is made
the more seldom the less of a stream is read.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings

from evidence.access.aggregates import count, kept_counts
from evidence.access.gate import Gate
from evidence.access.owner_notices import Reading, pause_by_itself
from evidence.access.quotas import share_of, watch_again
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.access.sql import Fragment, fetched

LEEWAY = 20
"""A count costs something, so the next one comes a twentieth of the share later at the soonest."""
UNWATCHED = 1_000_000

SEEN = """
SELECT count(DISTINCT p.pseudonym)
FROM evidence_disclosure d CROSS JOIN LATERAL unnest(d.pseudonyms) AS x(pseudonym)
JOIN evidence_pseudonym p ON p.pseudonym = x.pseudonym
WHERE d.chain = %s AND d.at > %s AND p.stream = %s
"""


def first_slack() -> int:
    """So many records of any stream that is watched are less than the share."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED


def look_into(scope: Scope, used_up: Iterable[tuple[str, str]], *, now: datetime) -> None:
    """Counts the streams (grant_id, stream) whose number is used up, in the transaction that wrote
    the answer down and holds its chain, and pauses the grants that have read too much."""
    for grant_id, stream in used_up:
        watch_again(grant_id, stream, slack=_slack(scope, grant_id, stream, now))


def _slack(scope: Scope, grant_id: str, stream: str, now: datetime) -> int:
    """Where the share was reached, the grant is paused, and as much again may be read once its owner
    has resumed it."""
    share = share_of(grant_id, otherwise=settings.PDPP_TRIPWIRE_SHARE)
    if not share:
        return UNWATCHED
    total = _total(scope, grant_id, stream)
    least: int = settings.PDPP_TRIPWIRE_RECORDS
    if total < least:
        return max(1, share * least // 100)
    most = -(-share * total // 100)
    hours: int = settings.PDPP_TRIPWIRE_HOURS
    seen = _seen(grant_id, stream, since=now - timedelta(hours=hours))
    if seen < most:
        return max(most - seen, most // LEEWAY, 1)
    pause_by_itself(grant_id, Reading(stream, seen, total, hours), now=now)
    return most


def _total(scope: Scope, grant_id: str, stream: str) -> int:
    """How many records of the stream the grant shows."""
    return sum(_count(each) for each in _visible(scope, grant_id, stream))


def _visible(scope: Scope, grant_id: str, stream: str) -> Iterable[VisibleRecords]:
    for visible in Gate(scope).streams(names=[stream]):
        sights = [sight for sight in visible.sights if sight.grant_id == grant_id]
        if sights:
            yield visible.through(*sights)


def _count(visible: VisibleRecords) -> int:
    kept = kept_counts([visible])
    return sum(records for records, _ in kept.values()) if visible.is_whole else count(visible)


def _seen(grant_id: str, stream: str, *, since: datetime) -> int:
    return int(fetched(Fragment(SEEN, (grant_id, since, stream)))[0][0])
