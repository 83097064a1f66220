"""What the owner should see: tripwire alerts, refused calls, new apps, and access that ends soon."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Min, Q, QuerySet

from evidence.access.grant_states import GrantState, filter_state, with_grant_state
from evidence.access.grant_text import humanize, stream_label
from evidence.access.sql import SQL, fetch_prepared
from evidence.models.clients import Client
from evidence.models.grants import Grant, Package
from evidence.models.owners import owners_of
from evidence.models.quotas import Alert, RefusedCall
from evidence.models.sources import load_declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """An alert as a sentence, without text from records."""

    alert_id: int
    at: datetime
    client: str
    source: str
    reading: "ReadShare"
    sentence: str


@dataclass(frozen=True, slots=True)
class ReadShare:
    """The share of a stream that was read: ``seen`` of ``total`` records within ``hours``."""

    stream: str
    seen: int
    total: int
    hours: int


def pause_by_tripwire(grant_id: str, reading: ReadShare, *, now: datetime) -> None:
    """Pause a grant until its owner resumes it, and store an alert.

    Applies to the next request. A temporary grant is paused with the grant that it extends. Does
    nothing if the grant is paused already or superseded.
    """
    extended = Grant.unscoped.filter(pk=grant_id).values_list("extends", flat=True).first()
    grant_id = extended or grant_id
    active = Grant.unscoped.filter(pk=grant_id, paused_at=None, superseded_by=None)
    paused = active.update(paused_at=now)
    if paused:
        Alert.unscoped.create(
            grant_id=grant_id,
            stream=reading.stream,
            seen=reading.seen,
            total=reading.total,
            hours=reading.hours,
            at=now,
        )


def open_alerts(owner_id: str) -> list[AlertMessage]:
    """Return the alerts that the owner has not acknowledged, latest first."""
    rows = Alert.unscoped.filter(acknowledged_at=None, grant__package__owner_id=owner_id)
    return [_message(row) for row in _with_names(rows).order_by("-at", "-pk")]


def mark_alert_seen(alert_id: int, *, owner_id: str, now: datetime) -> bool:
    rows = Alert.unscoped.filter(pk=alert_id, grant__package__owner_id=owner_id)
    return bool(rows.filter(acknowledged_at=None).update(acknowledged_at=now))


def _with_names(rows: QuerySet[Alert]) -> QuerySet[Alert]:
    return rows.select_related("grant__package__client", "grant__source")


def _message(row: Alert) -> AlertMessage:
    grant = row.grant
    streams = load_declarations([grant.declaration_id])[grant.declaration_id].declaration.streams
    stream = streams.get(row.stream)
    label = humanize(row.stream) if stream is None else stream_label(stream)
    client = grant.package.client.display_name
    return AlertMessage(
        alert_id=row.pk,
        at=row.at,
        client=client,
        source=grant.source.display_name,
        reading=ReadShare(row.stream, row.seen, row.total, row.hours),
        sentence=f"Access of {client} to {grant.source.display_name} was paused automatically: within"
        f" {row.hours} hours it read {row.seen:,} of the {row.total:,} records of {label} that it may"
        " see.",
    )


@dataclass(frozen=True, slots=True)
class NewAccess:
    """An app that may read, since ``at``. ``sources`` are declared names."""

    package_id: str
    client: str
    sources: tuple[str, ...]
    at: datetime


def new_access(owner_id: str, *, since: datetime) -> list[NewAccess]:
    """Return the packages that were issued since then, oldest first. Two queries."""
    packages = Package.unscoped.filter(owner_id=owner_id, created_at__gte=since)
    sources: dict[str, list[str]] = {}
    grants = Grant.unscoped.filter(package__in=packages).order_by("source__display_name")
    for package_id, source in grants.values_list("package_id", "source__display_name").distinct():
        sources.setdefault(package_id, []).append(source)
    return [
        NewAccess(row.pk, row.client.display_name, tuple(sources.get(row.pk, ())), row.created_at)
        for row in packages.select_related("client").order_by("created_at", "pk")
    ]


def grants_by_source(owner_id: str) -> dict[str, list[str]]:
    """Return the ids of all grants, ended ones too, by the declared name of their source."""
    rows = Grant.unscoped.filter(package__owner_id=owner_id).order_by("source__display_name")
    found: dict[str, list[str]] = {}
    for source, grant_id in rows.values_list("source__display_name", "pk"):
        found.setdefault(source, []).append(grant_id)
    return found


def client_names(owner_id: str) -> dict[str, str]:
    rows = Client.unscoped.filter(owner_id=owner_id)
    return dict(rows.values_list("client_id", "display_name"))


def ending_grants(
    owner_id: str, *, within: timedelta, now: datetime, only_longer: bool = False
) -> Sequence[Grant]:
    """Return active grants that end within a time, the first one first.

    ``only_longer`` leaves out grants that were issued for no longer than that.
    """
    rows = filter_state(with_grant_state(now), GrantState.ACTIVE)
    rows = rows.filter(package__owner_id=owner_id, expires_at__lte=now + within, extends=None)
    if only_longer:
        rows = rows.filter(expires_at__gt=F("issued_at") + within)
    rows = rows.select_related("package__client", "source")
    return list(rows.order_by("expires_at", "grant_id"))


REFUSED_CALL_RETENTION = timedelta(days=30)
MAX_REFUSED_CALLS = 20_000
MAX_REFUSED_CALLS_PER_HOUR = 500

# Asynchronous commit, so that a refused call does not wait for the disk.
STORE_REFUSED_CALL = """
-- Store a refused call, unless the client had too many in the last hour. One query.
-- Parameters: owner id, client id, an hour ago, maximum, the columns of the row, maximum.
WITH async_commit AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
recent_calls AS MATERIALIZED (
    SELECT count(*) AS calls FROM (
        SELECT FROM evidence_refusedcall
        WHERE owner_id = %s AND client_id = %s AND at > %s LIMIT %s
    ) c
)
INSERT INTO evidence_refusedcall
    (owner_id, at, client_id, token_id, request_id, route, code, param, stream, clause)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM async_commit, recent_calls WHERE recent_calls.calls < %s
RETURNING id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCallDetails:
    """The columns of a refused call; it contains no secrets."""

    owner_id: str
    client_id: str
    token_id: str
    request_id: str
    route: str
    code: str
    param: str = ""
    stream: str = ""
    clause: str = ""


def store_refused_call(call: RefusedCallDetails, *, now: datetime) -> None:
    """Store a refused call, after the transaction of the read has ended. One query."""
    values = (
        call.owner_id, call.client_id, now - timedelta(hours=1), MAX_REFUSED_CALLS_PER_HOUR,
        call.owner_id, now, call.client_id, call.token_id, call.request_id, call.route, call.code,
        call.param, call.stream, call.clause, MAX_REFUSED_CALLS_PER_HOUR,
    )  # fmt: skip
    fetch_prepared(SQL(STORE_REFUSED_CALL, values))


def refused_calls(
    owner_id: str, *, client_id: str = "", request_id: str = ""
) -> QuerySet[RefusedCall]:
    """Return refused calls, latest first, optionally of one client or one request."""
    rows = RefusedCall.unscoped.filter(owner_id=owner_id).order_by("-at", "-pk")
    if client_id:
        rows = rows.filter(client_id=client_id)
    return rows.filter(request_id=request_id) if request_id else rows


def delete_old_refused_calls(now: datetime) -> int:
    """Delete an owner's expired refused calls, and the oldest if there are too many.

    Returns their number.
    """
    expired, _ = RefusedCall.unscoped.filter(at__lt=now - REFUSED_CALL_RETENTION).delete()
    first_surplus = RefusedCall.unscoped.order_by("-pk").values_list("pk", flat=True)[
        MAX_REFUSED_CALLS : MAX_REFUSED_CALLS + 1
    ]
    surplus, _ = RefusedCall.unscoped.filter(pk__lte=max(first_surplus, default=0)).delete()
    return expired + surplus


def owners_with_old_refused_calls(now: datetime) -> list[str]:
    """Return the owners with expired or too many refused calls. One query across owners."""
    is_due = Q(first__lt=now - REFUSED_CALL_RETENTION) | Q(number__gt=MAX_REFUSED_CALLS)
    return owners_of(
        lambda: (
            RefusedCall.unscoped.values("owner_id")
            .annotate(first=Min("at"), number=Count("pk"))
            .filter(is_due)
        )
    )
