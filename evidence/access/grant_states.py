"""Define the state of a grant and of a token, as SQL that lists can filter by.

The definitions mirror the checks of ``evidence.access.tokens``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import orjson
from django.db.models import Case, Exists, F, Model, OuterRef, Q, QuerySet, TextChoices, Value, When

from evidence.access.grant_terms import parse_terms
from evidence.access.grant_text import humanize, stream_label
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import NotFound
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Grant
from evidence.models.sources import load_declarations

Row = TypeVar("Row", Grant, AccessToken)


class GrantState(TextChoices):
    ACTIVE = "active", "Active"
    PAUSED = "paused", "Paused"
    EXPIRED = "expired", "Expired"
    CONSUMED = "consumed", "Used once, closed"
    REVOKED = "revoked", "Revoked"
    SUPERSEDED = "superseded", "Superseded"


CURRENT_STATES = (GrantState.ACTIVE, GrantState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSummary:
    """A row of the list of grants; ``streams`` are names, ``connections`` are ids."""

    grant_id: str
    package_id: str
    client: str
    source: str
    connections: tuple[str, ...]
    streams: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    state: GrantState


def with_grant_state(now: datetime) -> QuerySet[Grant]:
    """Return every grant, newest first, with its state, package, client and source."""
    is_extended_grant_gone = Q(extends__superseded_by__isnull=False)
    state = Case(
        When(superseded_by__isnull=False, then=Value(GrantState.SUPERSEDED.value)),
        When(
            _is_revoked("", "package__", "extends__") | is_extended_grant_gone,
            then=Value(GrantState.REVOKED.value),
        ),
        When(expires_at__lte=now, then=Value(GrantState.EXPIRED.value)),
        When(readable_until__lte=now, then=Value(GrantState.CONSUMED.value)),
        When(
            Q(paused_at__isnull=False) | Q(extends__paused_at__isnull=False),
            then=Value(GrantState.PAUSED.value),
        ),
        default=Value(GrantState.ACTIVE.value),
    )
    rows = Grant.unscoped.select_related("package__client", "source")
    return rows.annotate(state=state).order_by("-issued_at", "grant_id")


def with_token_state(now: datetime) -> QuerySet[AccessToken]:
    """Return every token, newest first, with its state, which is at best that of its grants."""
    current = Grant.unscoped.filter(
        package=OuterRef("package"), superseded_by=None, revoked_at=None, extends=None
    )
    unexpired = current.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    usable = unexpired.filter(Q(readable_until=None) | Q(readable_until__gt=now))
    of_package = Q(package__isnull=False)
    state = Case(
        When(_is_revoked("", "package__"), then=Value(GrantState.REVOKED.value)),
        When(expires_at__lte=now, then=Value(GrantState.EXPIRED.value)),
        When(of_package & ~Exists(current), then=Value(GrantState.REVOKED.value)),
        When(of_package & ~Exists(unexpired), then=Value(GrantState.EXPIRED.value)),
        When(of_package & ~Exists(usable), then=Value(GrantState.CONSUMED.value)),
        When(
            of_package & ~Exists(usable.filter(paused_at=None)), then=Value(GrantState.PAUSED.value)
        ),
        default=Value(GrantState.ACTIVE.value),
    )
    rows = AccessToken.unscoped.select_related("package__client")
    return rows.annotate(state=state).order_by("-created_at", "token_id")


def filter_state(rows: QuerySet[Row], state: GrantState) -> QuerySet[Row]:
    """Return the rows of ``with_grant_state`` or ``with_token_state`` that have one state."""
    return rows.filter(Q(state=state.value))


def state_of(row: Model) -> GrantState:
    """Return the state of a row of ``with_grant_state`` or ``with_token_state``."""
    return GrantState(vars(row)["state"])


def _current(now: datetime) -> QuerySet[Grant]:
    return with_grant_state(now).filter(Q(state__in=CURRENT_STATES))


def usable_until(package_id: str, *, now: datetime) -> tuple[bool, datetime | None]:
    """Return whether a package has an active or paused grant, and when the last one expires.

    None means never. Paused grants count, because their client stays signed in.
    """
    rows = _current(now).filter(package_id=package_id)
    expiries = rows.order_by(F("expires_at").desc(nulls_first=True)).values_list(
        "expires_at", flat=True
    )
    last = list(expiries[:1])
    return bool(last), last[0] if last else None


def is_refreshable(package_id: str, *, now: datetime) -> bool:
    """Return whether a package has an active or paused grant."""
    return _current(now).filter(package_id=package_id).exists()


def has_paused_grant(package_id: str, *, now: datetime) -> bool:
    """Return whether a package has a paused grant."""
    return filter_state(
        with_grant_state(now).filter(package_id=package_id), GrantState.PAUSED
    ).exists()


def live_packages(package_ids: Iterable[str], *, now: datetime) -> frozenset[str]:
    """Return the packages that have an active or paused grant. One query."""
    rows = _current(now).filter(package_id__in=list(package_ids))
    return frozenset(rows.order_by().values_list("package_id", flat=True))


def granted_stream_names(grant_id: str, *, connector_id: str, owner_id: str) -> frozenset[str]:
    """Return the streams that a grant of a source names, in any state. Raises ``NotFound``."""
    of_source = Q(source__connector_key=connector_id) | Q(source__source_id=connector_id)
    grants = Grant.unscoped.filter(of_source, grant_id=grant_id, package__owner_id=owner_id)
    streams = grants.values_list("streams", flat=True).first()
    if streams is None:
        raise NotFound(message="This source has no such grant.", param="grant_id")
    return frozenset(terms["name"] for terms in streams)


def connection_labels(owner_id: str) -> Mapping[str, str]:
    """Return the label of every connection, including revoked ones, marked if demo. One query."""
    rows = Connection.unscoped.filter(owner_id=owner_id)
    return {row.pk: row.label for row in rows.only("display_name", "demo")}


def list_grants(owner_id: str, *, now: datetime) -> list[GrantSummary]:
    """Return every grant of the owner, newest first. One query."""
    return [_summary(grant) for grant in with_grant_state(now).filter(package__owner_id=owner_id)]


def connection_ids(grant: Grant) -> tuple[str, ...]:
    """Return the connections of all streams of a grant, without duplicates."""
    ids = (id_ for stream in grant.streams for id_ in stream["instance_ids"])
    return tuple(dict.fromkeys(ids))


def stream_labels(grant: Grant) -> tuple[str, ...]:
    """Return the labels of the streams in the grant's declaration. Cached after one query."""
    document = load_declarations([grant.declaration_id])[grant.declaration_id].declaration
    names = (stream["name"] for stream in grant.streams)
    declared_streams = document.streams
    return tuple(
        stream_label(declared_streams[name]) if name in declared_streams else humanize(name)
        for name in names
    )


def terms_of(grant: Grant) -> list[tuple[StreamTerms, StreamDeclaration | None]]:
    """Return the terms of each stream, and the stream as declared when the grant was issued."""
    streams = load_declarations([grant.declaration_id])[grant.declaration_id].declaration.streams
    terms = parse_terms(orjson.dumps(grant.streams).decode())
    return [(term, streams.get(term.name)) for term in terms]


def _summary(grant: Grant) -> GrantSummary:
    return GrantSummary(
        grant_id=grant.grant_id,
        package_id=grant.package_id,
        client=grant.package.client.display_name,
        source=grant.source.display_name,
        connections=connection_ids(grant),
        streams=tuple(stream["name"] for stream in grant.streams),
        issued_at=grant.issued_at,
        expires_at=grant.expires_at,
        state=state_of(grant),
    )


def _is_revoked(*prefixes: str) -> Q:
    condition = Q()
    for prefix in prefixes:
        condition |= Q(**{f"{prefix}revoked_at__isnull": False})
    return condition


DATA_ACCESS = "https://pdpp.dev/data-access"
DETAIL_MEMBERS = ("name", "instance_ids", "fields", "resources", "time_constraint")


def active_grants(package_id: str, *, now: datetime) -> list[Grant]:
    """Return a package's active grants, oldest first, with source and declaration.

    Temporary grants are left out.
    """
    rows = filter_state(with_grant_state(now), GrantState.ACTIVE)
    rows = rows.filter(package_id=package_id, extends=None)
    return list(rows.select_related("declaration", "source").order_by("issued_at", "grant_id"))


def authorization_detail(grant: Grant) -> dict[str, Any]:
    """Return a grant as an RFC 9396 authorization detail, which may be less than was requested."""
    detail: dict[str, Any] = {
        "type": DATA_ACCESS,
        "access_mode": grant.access_mode,
        "purpose_code": grant.purpose_code,
        "source": {"kind": grant.source.kind, "id": grant.source.source_id},
        "streams": [
            {name: stream[name] for name in DETAIL_MEMBERS if name in stream}
            for stream in grant.streams
        ],
    }
    if grant.purpose_description:
        detail["purpose_description"] = grant.purpose_description
    if grant.retention is not None:
        detail["retention"] = grant.retention
    return detail


def grant_reference(package_id: str, *, now: datetime) -> dict[str, Any]:
    """Return the ``grant_id`` of a package's only active grant, or else its ``grant_package_id``."""
    grants = active_grants(package_id, now=now)
    if len(grants) == 1:
        return {"grant_id": grants[0].grant_id}
    return {"grant_package_id": package_id}
