"""Set the quotas of a grant, and charge each answer to them.

One statement in the transaction of the ledger entry locks the quotas in a fixed order and adds to
all of them, or to none if any would be exceeded. Quotas add one statement per call; grants without
quotas add none. All server processes share the counts, because they are rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db import transaction
from django.db.models import F

from evidence import limits
from evidence.access.grants import lock_current_grant
from evidence.access.scope import GrantTerms, QuotaUsage, Scope
from evidence.access.sql import SQL, fetch_prepared
from evidence.errors import RateLimitExceeded
from evidence.models.grants import Grant
from evidence.models.quotas import Quota, Tripwire, Watch

PERIODS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}

CHARGE = """
-- Charge amounts to all quotas, or to none if any would be exceeded. Returns the exceeded quotas.
-- A period that began by the clock of another server, ahead of ours, does not begin again.
-- Parameters: grant ids, measures, amounts, now, now, owner id, owner id. One query per call.
WITH due AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS d(grant_id, measure, amount)
),
held AS MATERIALIZED (
    SELECT q.id, q.grant_id, q.measure, q.period, q.most, d.amount,
        greatest(q.since, date_trunc(q.period, %s::timestamptz, 'UTC')) AS since,
        CASE WHEN q.since >= date_trunc(q.period, %s::timestamptz, 'UTC') THEN q.used ELSE 0 END AS used
    FROM evidence_quota q JOIN due d USING (grant_id, measure)
    WHERE q.owner_id = %s ORDER BY q.id FOR UPDATE OF q
),
charged AS (
    UPDATE evidence_quota q SET used = h.used + h.amount, since = h.since
    FROM held h
    WHERE q.owner_id = %s AND q.id = h.id AND NOT EXISTS (SELECT FROM held o WHERE o.used + o.amount > o.most)
)
SELECT grant_id, measure, period, most, used, since, amount FROM held WHERE used + amount > most
"""


class DisclosureCost(NamedTuple):
    """The records and bytes that one call discloses through one grant."""

    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExceededQuota:
    """A quota that a call of ``amount`` would exceed."""

    grant_id: str
    limit: QuotaUsage
    amount: int

    @property
    def resets_at(self) -> datetime:
        return self.limit.since + PERIODS[self.limit.period]


def charge(scope: Scope, amounts: Mapping[str, DisclosureCost], *, now: datetime) -> None:
    """Charge one call and its disclosures to each of these grants. At most one query.

    Raises ``RateLimitExceeded`` and charges nothing if any quota would be exceeded.
    """
    metered = {str(grant.grant_id): grant.charged_grant for grant in scope.grants if grant.limits}
    totals: dict[str, DisclosureCost] = {}
    for grant_id in amounts.keys() & metered.keys():
        records, size = totals.get(metered[grant_id], DisclosureCost())
        cost = amounts[grant_id]
        totals[metered[grant_id]] = DisclosureCost(records + cost.records, size + cost.size_bytes)
    due = [
        (grant_id, measure, amount)
        for grant_id, (records, size) in sorted(totals.items())
        for measure, amount in (("calls", 1), ("records", records), ("bytes", size))
    ]
    if not due:
        return
    columns: tuple[Any, ...] = tuple([row[at] for row in due] for at in range(3))
    rows = fetch_prepared(SQL(CHARGE, (*columns, now, now, scope.owner_id, scope.owner_id)))
    if rows:
        exceeded = [ExceededQuota(id_, QuotaUsage(*quota), amount) for id_, *quota, amount in rows]
        raise _refusal(scope, exceeded, now)


def charge_call(scope: Scope, grants: Iterable[GrantTerms], *, now: datetime) -> None:
    """Charge a call that disclosed nothing to every grant that it affects."""
    charge(scope, {str(grant.grant_id): DisclosureCost() for grant in grants}, now=now)


def check_call_quota(scope: Scope, grants: Iterable[GrantTerms], *, now: datetime) -> None:
    """Refuse a call before reading if no affected grant has a call left. No query.

    Uses the quotas of the token lookup; ``charge`` makes the final decision.
    """
    exhausted = [list(_exhausted_call_quotas(grant, now)) for grant in grants]
    if exhausted and all(exhausted):
        soonest = min(exhausted, key=lambda quotas: max(quota.resets_at for quota in quotas))
        raise _refusal(scope, soonest, now)


def _exhausted_call_quotas(grant: GrantTerms, now: datetime) -> Iterable[ExceededQuota]:
    for limit in grant.limits:
        is_current = limit.since + PERIODS[limit.period] > now
        if limit.measure == "calls" and is_current and limit.used >= limit.most:
            yield ExceededQuota(grant.charged_grant, limit, 1)


def _refusal(scope: Scope, exceeded: Sequence[ExceededQuota], now: datetime) -> RateLimitExceeded:
    """Return an error that names the quota that resets last."""
    last = max(exceeded, key=lambda quota: (quota.resets_at, quota.limit.measure))
    limit, resets_at = last.limit, f"{last.resets_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    others = _other_connections(scope, {quota.grant_id for quota in exceeded})
    error = RateLimitExceeded(
        message=f"The owner allows {limit.most} {limit.measure} per {limit.period} through the grant"
        f" {last.grant_id}. {limit.used} are used and this call needs {last.amount}, so it was not"
        f" answered. The quota resets at {resets_at}.",
        limit={
            "grant_id": last.grant_id,
            "measure": limit.measure,
            "period": limit.period,
            "most": limit.most,
            "used": limit.used,
            "asked": last.amount,
        },
        resets_at=resets_at,
        retry_after=max(1, -int((now - last.resets_at).total_seconds() // 1)),
        next_step=_next_step(limit, resets_at, others),
    )
    if others:
        error.extra["other_connections"] = others
    return error


def _next_step(limit: QuotaUsage, resets_at: str, others: Sequence[object]) -> str:
    remaining = limit.most - limit.used
    step = f"Call again after {resets_at}."
    if remaining > 0 and limit.measure == "records":
        step = (
            f"Ask for at most {remaining} records at once (limit), or call again after {resets_at}."
        )
    if remaining > 0 and limit.measure == "bytes":
        step = (
            f"Ask for at most {remaining} bytes at once (max_bytes, fewer fields), or call again after"
            f" {resets_at}."
        )
    if others:
        step += " To continue without that grant, pass one of other_connections as connection_id."
    return step


def _other_connections(scope: Scope, exceeded: set[str]) -> list[dict[str, str]]:
    """Return the connections of the caller's other grants."""
    connections = {
        connection_id: scope.connections[connection_id]
        for grant in scope.grants
        if grant.charged_grant not in exceeded
        for stream in grant.streams
        for connection_id in sorted(stream.connection_ids & scope.connections.keys())
    }
    return [
        {"connection_id": facts.connection_id, "display_name": facts.display_name}
        for facts in [*connections.values()][: limits.CANDIDATES_MAX]
    ]


QuotaLimits: TypeAlias = Mapping[tuple[str, str], int]
"""(measure, period) -> maximum. A missing pair has no limit."""


@transaction.atomic
def set_quotas(grant_id: str, maximums: QuotaLimits, *, now: datetime) -> None:
    """Replace the quotas of a grant, or of its current successor, from the next request on.

    A quota that stays keeps its usage; a new one counts from now. Quotas are locked in the same order
    as in reads, and the grant is not locked.
    """
    grant_id = lock_current_grant(grant_id)
    rows = Quota.unscoped.filter(grant_id=grant_id)
    current = lock_quotas(grant_id)
    removed = [row.pk for row in current if (row.measure, row.period) not in maximums]
    rows.filter(pk__in=removed).delete()
    Quota.unscoped.bulk_create(
        [
            Quota(
                grant_id=grant_id,
                measure=measure,
                period=period,
                most=most,
                since=_start(period, now),
            )
            for (measure, period), most in sorted(maximums.items())
        ],
        update_conflicts=True,
        unique_fields=["owner", "grant", "measure", "period"],
        update_fields=["most"],
    )


@transaction.atomic
def set_tripwire_share(grant_id: str, share: int | None) -> None:
    """Set the percentage of a stream at which the tripwire pauses a grant, from the next answer on.

    0 means never, None means the default of the installation. Earlier reads count.
    """
    grant_id = lock_current_grant(grant_id)
    if share == get_tripwire_share(grant_id):
        return
    if share is None:
        Tripwire.unscoped.filter(grant_id=grant_id).delete()
    else:
        Tripwire.unscoped.update_or_create(grant_id=grant_id, defaults={"share": share})
    streams: list[dict[str, Any]] = Grant.unscoped.values_list("streams", flat=True).get(
        pk=grant_id
    )
    Watch.unscoped.bulk_create(
        [
            Watch(grant_id=grant_id, stream=stream, slack=0)
            for stream in sorted(terms["name"] for terms in streams)
        ],
        update_conflicts=True,
        unique_fields=["owner", "grant", "stream"],
        update_fields=["slack"],
    )


def get_tripwire_share(grant_id: str) -> int | None:
    """Return the percentage that the owner set for this grant, if any."""
    return Tripwire.unscoped.filter(grant_id=grant_id).values_list("share", flat=True).first()


def effective_tripwire_share(grant_id: str, *, default: int) -> int:
    share = get_tripwire_share(grant_id)
    return default if share is None else share


def schedule_recount(grant_id: str, stream: str, *, slack: int) -> None:
    """Count the stream again after ``slack`` more records."""
    Watch.unscoped.filter(grant_id=grant_id, stream=stream).update(slack=slack)


def lock_quotas(grant_id: str) -> list[Quota]:
    """Lock the quotas of a grant in the order of reads, after answers that are being charged."""
    return list(Quota.unscoped.select_for_update().filter(grant_id=grant_id).order_by("pk"))


def transfer_quotas(grant_id: str, quotas: Sequence[Quota], *, to: str, now: datetime) -> None:
    """Move the quotas and their usage to a successor, and exhaust those of the old grant."""
    set_tripwire_share(to, get_tripwire_share(grant_id))
    Quota.unscoped.bulk_create(
        [
            Quota(
                grant_id=to,
                measure=row.measure,
                period=row.period,
                most=row.most,
                used=row.used,
                since=row.since,
            )
            for row in quotas
        ]
    )
    Quota.unscoped.filter(grant_id=grant_id).update(used=F("most"), since=now)


def list_quotas(grant_id: str, *, now: datetime) -> list[QuotaUsage]:
    """Return the quotas of a grant with their current usage."""
    return quotas_by_grant([grant_id], now=now).get(grant_id, [])


def quotas_by_grant(grant_ids: Iterable[str], *, now: datetime) -> dict[str, list[QuotaUsage]]:
    """Return grant id -> its quotas with their current usage. One query."""
    quotas: dict[str, list[QuotaUsage]] = {}
    for row in Quota.unscoped.filter(grant_id__in=grant_ids).order_by("pk"):
        usage = QuotaUsage(row.measure, row.period, row.most, _used(row, now), row.since)
        quotas.setdefault(row.grant_id, []).append(usage)
    return quotas


def _used(row: Quota, now: datetime) -> int:
    return row.used if row.since + PERIODS[row.period] > now else 0


def _start(period: str, now: datetime) -> datetime:
    minute = now.astimezone(UTC).replace(microsecond=0, second=0)
    if period == "minute":
        return minute
    return minute.replace(minute=0) if period == "hour" else minute.replace(minute=0, hour=0)
