"""The owner's limits of a grant: set, looked at, handed on to a successor."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models import F

from evidence.access.charging import PERIODS
from evidence.access.scope import Used
from evidence.access.succession import hold_latest
from evidence.models.grants import Grant
from evidence.models.quotas import Quota, Tripwire, Watch

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
