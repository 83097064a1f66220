"""Charging a grant with what is about to be read through it, or refusing the whole answer.

One statement, in the transaction of the read and before anything is written down: it takes hold of
the limits in one order, and adds to all of them or, where any would be passed, to none. Several
servers share the counts, for they are rows. A call whose grants have no limit costs nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db import transaction
from django.db.models import F

from evidence import limits
from evidence.access.grants import hold_latest
from evidence.access.scope import ConnectionFacts, GrantTerms, Scope, Used
from evidence.access.sql import Fragment, fetched_by_one_plan
from evidence.errors import RateLimitExceeded
from evidence.models.grants import Grant
from evidence.models.quotas import Quota, Tripwire, Watch

PERIODS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}

# The clock of another server may be ahead of ours: a period that has begun is not begun again.
CHARGE = """
WITH due AS (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS d(grant_id, measure, amount)
),
held AS MATERIALIZED (
    SELECT q.id, q.grant_id, q.measure, q.period, q.most, d.amount,
        greatest(q.since, date_trunc(q.period, %s::timestamptz, 'UTC')) AS since,
        CASE WHEN q.since >= date_trunc(q.period, %s::timestamptz, 'UTC') THEN q.used ELSE 0 END AS used
    FROM evidence_quota q JOIN due d USING (grant_id, measure) ORDER BY q.id FOR UPDATE OF q
),
charged AS (
    UPDATE evidence_quota q SET used = h.used + h.amount, since = h.since
    FROM held h WHERE q.id = h.id AND NOT EXISTS (SELECT FROM held o WHERE o.used + o.amount > o.most)
)
SELECT grant_id, measure, period, most, used, since, amount FROM held WHERE used + amount > most
"""


class Amount(NamedTuple):
    """What one call discloses through one grant."""

    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """A limit that a call would pass by ``amount`` on top of what is used."""

    grant_id: str
    limit: Used
    amount: int

    @property
    def resets_at(self) -> datetime:
        return self.limit.since + PERIODS[self.limit.period]


def charge(scope: Scope, amounts: Mapping[str, Amount], *, now: datetime) -> None:
    """A call of each grant named, and what it disclosed. Raises ``RateLimitExceeded``, having
    charged nobody, where any limit of any of them would be passed."""
    metered = {grant.grant_id for grant in scope.grants if grant.limits}
    due = [
        (grant_id, measure, amount)
        for grant_id, (records, size) in amounts.items()
        if grant_id in metered
        for measure, amount in (("calls", 1), ("records", records), ("bytes", size))
    ]
    if not due:
        return
    columns: tuple[Any, ...] = tuple([row[at] for row in due] for at in range(3))
    rows = fetched_by_one_plan(Fragment(CHARGE, (*columns, now, now)))
    if rows:
        raise _refusal(scope, [_passed(row) for row in rows], now)


def charge_call(scope: Scope, grants: Iterable[GrantTerms], *, now: datetime) -> None:
    """A call that disclosed nothing, to each of the grants that it was asked of, as in the ledger."""
    charge(scope, {str(grant.grant_id): Amount() for grant in grants}, now=now)


def concerned(
    scope: Scope, *, stream: str | None, connection_id: str | None
) -> Sequence[GrantTerms]:
    """The grants that a call is about; all where it names neither."""
    return [
        grant for grant in scope.grants
        if any(
            stream in (None, each.name)
            and (connection_id is None or connection_id in each.connection_ids)
            for each in grant.streams
        )
    ]  # fmt: skip


def refuse_used_up(scope: Scope, concerned: Iterable[GrantTerms], *, now: datetime) -> None:
    """Refuses before anything is read where no grant concerned has a call left, by what was looked
    up with the bearer: no statement. ``charge`` decides what this lets through."""
    used_up = [list(_calls_used_up(grant, now)) for grant in concerned]
    if used_up and all(used_up):
        soonest = min(used_up, key=lambda each: max(one.resets_at for one in each))
        raise _refusal(scope, soonest, now)


def _calls_used_up(grant: GrantTerms, now: datetime) -> Iterable[Passed]:
    for limit in grant.limits:
        goes_on = limit.since + PERIODS[limit.period] > now
        if limit.measure == "calls" and goes_on and limit.used >= limit.most:
            yield Passed(str(grant.grant_id), limit, 1)


def _passed(row: Sequence[Any]) -> Passed:
    grant_id, measure, period, most, used, since, amount = row
    return Passed(grant_id, Used(measure, period, most, used, since), amount)


def _refusal(scope: Scope, passed: Sequence[Passed], now: datetime) -> RateLimitExceeded:
    """Names the limit that holds longest: when it begins anew, the others have."""
    last = max(passed, key=lambda each: (each.resets_at, each.limit.measure))
    limit, resets_at = last.limit, f"{last.resets_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    others = _others(scope, {each.grant_id for each in passed})
    refusal = RateLimitExceeded(
        message=f"The owner lets {limit.most} {limit.measure} per {limit.period} be read through"
        f" the grant {last.grant_id}. {limit.used} are used and this call comes to {last.amount}, so it"
        f" was not answered. The count begins anew at {resets_at}.",
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
        refusal.extra["other_connections"] = others
    return refusal


def _next_step(limit: Used, resets_at: str, others: Sequence[object]) -> str:
    left = limit.most - limit.used
    step = f"Call again after {resets_at}."
    if left > 0 and limit.measure == "records":
        step = f"Ask for at most {left} records at once (limit), or call again after {resets_at}."
    if left > 0 and limit.measure == "bytes":
        step = (
            f"Ask for at most {left} bytes at once (max_bytes, fewer fields), or call again after"
            f" {resets_at}."
        )
    if others:
        step += " To go on without that grant, name one of other_connections as connection_id."
    return step


def _others(scope: Scope, over: set[str]) -> list[dict[str, str]]:
    """The connections that other grants of the caller lead to."""
    reached = {
        connection_id: scope.connections[connection_id]
        for grant in scope.grants
        if grant.grant_id not in over
        for stream in grant.streams
        for connection_id in sorted(stream.connection_ids & scope.connections.keys())
    }
    return [_named(facts) for facts in [*reached.values()][: limits.CANDIDATES_MAX]]


def _named(facts: ConnectionFacts) -> dict[str, str]:
    return {"connection_id": facts.connection_id, "display_name": facts.display_name}


Limits: TypeAlias = Mapping[tuple[str, str], int]
"""(measure, period) -> the most; what is missing has no limit."""


@transaction.atomic
def set_limits(grant_id: str, wanted: Limits, *, now: datetime) -> None:
    """From the next request on exactly these limits hold. What was counted for one that stays, goes
    on to count; a new one counts from now.

    Limits are taken hold of in the order in which reads do, and the grant not at all. They are those of
    what the grant has become.
    """
    grant_id = hold_latest(grant_id)
    rows = Quota.unscoped.filter(grant_id=grant_id)
    standing = hold_limits(grant_id)
    gone = [row.pk for row in standing if (row.measure, row.period) not in wanted]
    rows.filter(pk__in=gone).delete()
    Quota.unscoped.bulk_create(
        [
            Quota(
                grant_id=grant_id,
                measure=measure,
                period=period,
                most=most,
                since=_start(period, now),
            )
            for (measure, period), most in sorted(wanted.items())
        ],
        update_conflicts=True,
        unique_fields=["grant", "measure", "period"],
        update_fields=["most"],
    )


@transaction.atomic
def set_share(grant_id: str, share: int | None) -> None:
    """From the next answer on the grant is paused by itself at this percent of a stream, at 0 never,
    at None as all others are. What was read before counts."""
    grant_id = hold_latest(grant_id)
    if share == own_share_of(grant_id):
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
            for stream in sorted(each["name"] for each in streams)
        ],
        update_conflicts=True,
        unique_fields=["grant", "stream"],
        update_fields=["slack"],
    )


def own_share_of(grant_id: str) -> int | None:
    """What the owner has said of this grant."""
    return Tripwire.unscoped.filter(grant_id=grant_id).values_list("share", flat=True).first()


def share_of(grant_id: str, *, otherwise: int) -> int:
    own = own_share_of(grant_id)
    return otherwise if own is None else own


def watch_again(grant_id: str, stream: str, *, slack: int) -> None:
    """After so many more records of the stream it is counted again."""
    Watch.unscoped.filter(grant_id=grant_id, stream=stream).update(slack=slack)


def hold_limits(grant_id: str) -> list[Quota]:
    """The limits, once every answer that was charged has been given, in the order of reads."""
    return list(Quota.unscoped.select_for_update().filter(grant_id=grant_id).order_by("pk"))


def hand_on_limits(grant_id: str, held: Sequence[Quota], *, to: str, now: datetime) -> None:
    """A successor has what is left of the limits of the grant that it replaces, and what is on its way
    through that one has nothing."""
    set_share(to, own_share_of(grant_id))
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
            for row in held
        ]
    )
    Quota.unscoped.filter(grant_id=grant_id).update(used=F("most"), since=now)


def limits_of(grant_id: str, *, now: datetime) -> list[Used]:
    """The limits of a grant and what of them is used now."""
    return [
        Used(row.measure, row.period, row.most, _used(row, now), row.since)
        for row in Quota.unscoped.filter(grant_id=grant_id).order_by("pk")
    ]


def _used(row: Quota, now: datetime) -> int:
    return row.used if row.since + PERIODS[row.period] > now else 0


def _start(period: str, now: datetime) -> datetime:
    whole = now.astimezone(UTC).replace(microsecond=0, second=0)
    if period == "minute":
        return whole
    return whole.replace(minute=0) if period == "hour" else whole.replace(minute=0, hour=0)
