"""Pausing a grant by itself, and what its owner is told of it until they have seen it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from evidence.access.grant_text import humanised, stream_label
from evidence.access.sql import Fragment, fetched_by_one_plan
from evidence.models.grants import Grant
from evidence.models.quotas import Alert, RefusedCall
from evidence.models.sources import declared

MAILED_WITHIN = timedelta(days=2)
"""A mail that could not be sent for so long is not sent any more; the pages still say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An alert in words, none of which comes from a record."""

    alert_id: int
    at: datetime
    client: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Reading:
    """``seen`` different records of ``total`` within ``hours``."""

    stream: str
    seen: int
    total: int
    hours: int


def pause_by_itself(grant_id: str, reading: Reading, *, now: datetime) -> None:
    """From the next request on nothing is read through the grant, until its owner resumes it. One that
    was replaced meanwhile shows nothing any more."""
    standing = Grant.unscoped.filter(pk=grant_id, paused_at=None, superseded_by=None)
    paused = standing.update(paused_at=now)
    if paused:
        Alert.unscoped.create(
            grant_id=grant_id,
            stream=reading.stream,
            seen=reading.seen,
            total=reading.total,
            hours=reading.hours,
            at=now,
        )


def standing_alerts(owner_id: str) -> list[Told]:
    """What the owner has not yet said to have seen, latest first; one query where there is none."""
    rows = Alert.unscoped.filter(acknowledged_at=None, grant__package__owner_id=owner_id)
    return [_told(row) for row in _with_names(rows).order_by("-at", "-pk")]


def acknowledge(alert_id: int, *, owner_id: str, now: datetime) -> bool:
    rows = Alert.unscoped.filter(pk=alert_id, grant__package__owner_id=owner_id)
    return bool(rows.filter(acknowledged_at=None).update(acknowledged_at=now))


def to_be_mailed(owner_id: str, *, now: datetime) -> Iterator[Told]:
    """Each alert that nobody has mailed yet. It counts as mailed once the caller asks for the next;
    whatever the caller raises leaves it for later. No two processes get the same at once."""
    rows = Alert.unscoped.filter(
        mailed_at=None, at__gte=now - MAILED_WITHIN, grant__package__owner_id=owner_id
    )
    for pk in list(rows.order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            held = _with_names(rows.filter(pk=pk)).select_for_update(of=("self",), skip_locked=True)
            for row in held:
                yield _told(row)
                Alert.unscoped.filter(pk=pk).update(mailed_at=now)


def _with_names(rows: QuerySet[Alert]) -> QuerySet[Alert]:
    return rows.select_related("grant__package__client", "grant__source")


def _told(row: Alert) -> Told:
    grant = row.grant
    streams = declared([grant.declaration_id])[grant.declaration_id].declaration.streams
    stream = streams.get(row.stream)
    label = humanised(row.stream) if stream is None else stream_label(stream)
    client = grant.package.client.display_name
    return Told(
        alert_id=row.pk,
        at=row.at,
        client=client,
        sentence=f"What {client} reads of {grant.source.display_name} was paused automatically: within"
        f" {row.hours} hours it has read {row.seen:,} of the {row.total:,} records of {label} that it"
        " may see.",
    )


KEPT = timedelta(days=30)
MOST = 20_000
MOST_AN_HOUR = 500

# Nobody waits for the disk because of a refusal.
WRITE = """
WITH hasty AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
lately AS MATERIALIZED (
    SELECT count(*) AS calls FROM (
        SELECT FROM evidence_refusedcall WHERE client_id = %s AND at > %s LIMIT %s
    ) c
)
INSERT INTO evidence_refusedcall
    (owner_id, at, client_id, token_id, request_id, route, code, param, stream, clause)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM hasty, lately WHERE lately.calls < %s
RETURNING id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One refused call, as ``RefusedCall`` keeps it."""

    owner_id: str
    client_id: str
    token_id: str
    request_id: str
    route: str
    code: str
    param: str = ""
    stream: str = ""
    clause: str = ""


def write_refused(call: Call, *, now: datetime) -> None:
    """One statement; outside of the transaction of the read, which holds nothing then."""
    values = (
        call.client_id, now - timedelta(hours=1), MOST_AN_HOUR,
        call.owner_id, now, call.client_id, call.token_id, call.request_id, call.route, call.code,
        call.param, call.stream, call.clause, MOST_AN_HOUR,
    )  # fmt: skip
    fetched_by_one_plan(Fragment(WRITE, values))


def refused_calls(
    owner_id: str, *, client_id: str = "", request_id: str = ""
) -> QuerySet[RefusedCall]:
    """Latest first; of one client, or of one request."""
    rows = RefusedCall.unscoped.filter(owner_id=owner_id).order_by("-at", "-pk")
    if client_id:
        rows = rows.filter(client_id=client_id)
    return rows.filter(request_id=request_id) if request_id else rows


def forget_refused(now: datetime) -> int:
    """Those older than they are kept, and the oldest of too many; how many."""
    old, _ = RefusedCall.unscoped.filter(at__lt=now - KEPT).delete()
    first_too_old = RefusedCall.unscoped.order_by("-pk").values_list("pk", flat=True)[
        MOST : MOST + 1
    ]
    too_many, _ = RefusedCall.unscoped.filter(pk__lte=max(first_too_old, default=0)).delete()
    return old + too_many
