"""Pause a grant when it has read too large a share of a stream.

Each grant and stream has a slack: a number of records that may be shown before the next count. Each
answer reduces it in its transaction. When it is used up, one query counts the distinct records shown
in the last hours, and the distance to the limit becomes the next slack. So the limit is never passed
unnoticed, and counts are rare while little of a stream is read.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings

from evidence.access.gate import Gate
from evidence.access.owner_notices import ReadShare, pause_by_tripwire
from evidence.access.quotas import effective_tripwire_share, schedule_recount
from evidence.access.record_counts import count_records, stored_counts
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.access.sql import SQL, fetch_all, text_array

RECOUNT_DIVISOR = 20
"""The smallest slack after a count is this fraction of the limit, because counting is expensive."""
UNWATCHED_SLACK = 1_000_000

COUNT_SEEN_RECORDS = """
-- Count the distinct records of a stream that a grant has shown since a time, without erased ones.
-- Parameters: owner id, grant id, time, stream, connection ids. One query per count.
SELECT count(DISTINCT r.digest)
FROM evidence_disclosure AS d CROSS JOIN LATERAL unnest(d.record_digests) AS x(digest)
JOIN evidence_disclosedrecord AS r ON r.owner_id = d.owner_id AND r.digest = x.digest
WHERE d.owner_id = %s AND d.chain = %s AND d.at > %s AND r.stream = %s AND r.connection_id = ANY(%s::text[])
"""


def check_tripwires(scope: Scope, used_up: Iterable[tuple[str, str]], *, now: datetime) -> None:
    """Count each (grant id, stream) whose slack is used up, and pause grants over their limit.

    Call it in the transaction that wrote the ledger entry.
    """
    for grant_id, stream in used_up:
        schedule_recount(grant_id, stream, slack=_next_slack(scope, grant_id, stream, now))


def _next_slack(scope: Scope, grant_id: str, stream: str, now: datetime) -> int:
    """Return the next slack; pause the grant if it reached its limit.

    A paused grant gets the full limit again, for when the owner resumes it.
    """
    share = effective_tripwire_share(grant_id, default=settings.PDPP_TRIPWIRE_SHARE)
    if not share:
        return UNWATCHED_SLACK
    streams = list(_granted_streams(scope, grant_id, stream))
    total = sum(map(_count, streams))
    min_records: int = settings.PDPP_TRIPWIRE_RECORDS
    if total < min_records:
        return max(1, share * min_records // 100)
    limit = -(-share * total // 100)
    hours: int = settings.PDPP_TRIPWIRE_HOURS
    since = now - timedelta(hours=hours)
    granted = (entry for visible in streams for entry in visible.granted)
    ids = text_array(facts.connection_id for entry in granted for facts in entry.connections)
    seen = int(
        fetch_all(SQL(COUNT_SEEN_RECORDS, (scope.owner_id, grant_id, since, stream, ids)))[0][0]
    )
    if seen < limit:
        return max(limit - seen, limit // RECOUNT_DIVISOR, 1)
    pause_by_tripwire(grant_id, ReadShare(stream, seen, total, hours), now=now)
    return limit


def _granted_streams(scope: Scope, grant_id: str, stream: str) -> Iterable[VisibleRecords]:
    for visible in Gate(scope).streams(names=[stream]):
        granted = [entry for entry in visible.granted if entry.grant_id == grant_id]
        if granted:
            yield visible.restricted_to(*granted)


def _count(visible: VisibleRecords) -> int:
    if not visible.hides_no_rows:
        return count_records(visible)
    return sum(records for records, _ in stored_counts([visible]).values())
