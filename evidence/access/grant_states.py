"""What has been handed out, for the owner to look at: the states of grants and of tokens.

One place says what a state is, in SQL, so that lists can be filtered by it. It mirrors what
``evidence.access.tokens`` lets through.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import orjson
from django.db.models import Case, Exists, F, Model, OuterRef, Q, QuerySet, TextChoices, Value, When

from evidence.access.grant_terms import parsed_terms
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import NotFound
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Grant
from evidence.models.sources import declared

Row = TypeVar("Row", Grant, AccessToken)


class State(TextChoices):
    ACTIVE = "active", "Active"
    PAUSED = "paused", "Paused"
    EXPIRED = "expired", "Expired"
    CONSUMED = "consumed", "Used once, closed"
    REVOKED = "revoked", "Revoked"
    SUPERSEDED = "superseded", "Superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    """A line of the list of grants; ``streams`` are names, ``connections`` are ids."""

    grant_id: str
    package_id: str
    client: str
    source: str
    connections: tuple[str, ...]
    streams: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime | None
    state: State


def grants_with_state(now: datetime) -> QuerySet[Grant]:
    """Every grant, newest first, with its package, client and source; ``state_of`` each is known."""
    state = Case(
        When(superseded_by__isnull=False, then=Value(State.SUPERSEDED.value)),
        When(_ended("", "package__"), then=Value(State.REVOKED.value)),
        When(expires_at__lte=now, then=Value(State.EXPIRED.value)),
        When(readable_until__lte=now, then=Value(State.CONSUMED.value)),
        When(paused_at__isnull=False, then=Value(State.PAUSED.value)),
        default=Value(State.ACTIVE.value),
    )
    rows = Grant.unscoped.select_related("package__client", "source")
    return rows.annotate(state=state).order_by("-issued_at", "grant_id")


def tokens_with_state(now: datetime) -> QuerySet[AccessToken]:
    """Every token, newest first. One whose grants have all ended has ended with them."""
    standing = Grant.unscoped.filter(
        package=OuterRef("package"), superseded_by=None, revoked_at=None
    )
    unexpired = standing.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    usable = unexpired.filter(Q(readable_until=None) | Q(readable_until__gt=now))
    of_package = Q(package__isnull=False)
    state = Case(
        When(_ended("", "package__"), then=Value(State.REVOKED.value)),
        When(expires_at__lte=now, then=Value(State.EXPIRED.value)),
        When(of_package & ~Exists(standing), then=Value(State.REVOKED.value)),
        When(of_package & ~Exists(unexpired), then=Value(State.EXPIRED.value)),
        When(of_package & ~Exists(usable), then=Value(State.CONSUMED.value)),
        When(of_package & ~Exists(usable.filter(paused_at=None)), then=Value(State.PAUSED.value)),
        default=Value(State.ACTIVE.value),
    )
    rows = AccessToken.unscoped.select_related("package__client")
    return rows.annotate(state=state).order_by("-created_at", "token_id")


def in_state(rows: QuerySet[Row], state: State) -> QuerySet[Row]:
    """Those rows of the functions above that are in one state."""
    return rows.filter(Q(state=state.value))


def state_of(row: Model) -> State:
    """The state of a row that one of the functions above has found."""
    return State(vars(row)["state"])


def usable_until(package_id: str, *, now: datetime) -> tuple[bool, datetime | None]:
    """Whether anything of a package stands, and when the last of it ends (None: never).

    What is paused stands: its sign-in is kept up meanwhile, and reads nothing.
    """
    states = [State.ACTIVE.value, State.PAUSED.value]
    rows = grants_with_state(now).filter(Q(state__in=states), package_id=package_id)
    ends = rows.order_by(F("expires_at").desc(nulls_first=True)).values_list(
        "expires_at", flat=True
    )
    last = list(ends[:1])
    return bool(last), last[0] if last else None


def may_go_on(package_id: str, *, now: datetime) -> bool:
    """Whether anything of a package can be used now or once the owner ends a pause."""
    rows = grants_with_state(now).filter(package_id=package_id)
    return any(in_state(rows, state).exists() for state in (State.ACTIVE, State.PAUSED))


def is_partly_paused(package_id: str, *, now: datetime) -> bool:
    """Whether something of a package reads nothing until the owner resumes it."""
    return in_state(grants_with_state(now).filter(package_id=package_id), State.PAUSED).exists()


def standing_packages(package_ids: Iterable[str], *, now: datetime) -> frozenset[str]:
    """Those of which anything can be used now or once the owner ends a pause; one query."""
    states = [State.ACTIVE.value, State.PAUSED.value]
    rows = grants_with_state(now).filter(Q(state__in=states), package_id__in=list(package_ids))
    return frozenset(rows.order_by().values_list("package_id", flat=True))


def read_through(token_ids: Iterable[str], *, now: datetime) -> Mapping[str, frozenset[str]]:
    """token_id -> the grants that it reads through now, for those that read anything; two queries."""
    tokens = in_state(tokens_with_state(now).filter(pk__in=list(token_ids)), State.ACTIVE)
    packages = dict(tokens.order_by().values_list("token_id", "package_id"))
    grants = in_state(grants_with_state(now).filter(package__in=packages.values()), State.ACTIVE)
    pairs = list(grants.order_by().values_list("package_id", "grant_id"))
    return {
        token_id: frozenset(grant_id for of, grant_id in pairs if of == package_id)
        for token_id, package_id in packages.items()
    }


def granted_streams(grant_id: str, *, connector_id: str, owner_id: str) -> frozenset[str]:
    """The streams that a grant of that source names, whatever became of it. Raises ``NotFound``."""
    called = Q(source__connector_key=connector_id) | Q(source__source_id=connector_id)
    grants = Grant.unscoped.filter(called, grant_id=grant_id, package__owner_id=owner_id)
    named = grants.values_list("streams", flat=True).first()
    if named is None:
        raise NotFound(message="No such grant is of this source.", param="grant_id")
    return frozenset(terms["name"] for terms in named)


def connection_labels(owner_id: str) -> Mapping[str, str]:
    """connection_id -> label of every connection, ended ones included; one query."""
    rows = Connection.unscoped.filter(owner_id=owner_id)
    return dict(rows.values_list("connection_id", "display_name"))


def held_grants(owner_id: str, *, now: datetime) -> list[HeldGrant]:
    """Every grant of the owner, newest first; one query."""
    return [_held(grant) for grant in grants_with_state(now).filter(package__owner_id=owner_id)]


def connection_ids(grant: Grant) -> tuple[str, ...]:
    """The connections that any stream of the grant is read through."""
    named = (each for stream in grant.streams for each in stream["instance_ids"])
    return tuple(dict.fromkeys(named))


def stream_labels(grant: Grant) -> tuple[str, ...]:
    """What the grant's own declaration calls its streams; a query the first time."""
    document = declared([grant.declaration_id])[grant.declaration_id].declaration
    names = (stream["name"] for stream in grant.streams)
    known = document.streams
    return tuple((known[name].label if name in known else None) or name for name in names)


def terms_of(grant: Grant) -> list[tuple[StreamTerms, StreamDeclaration | None]]:
    """What the grant says of each stream, and the stream as it was declared when it was given."""
    streams = declared([grant.declaration_id])[grant.declaration_id].declaration.streams
    terms = parsed_terms(grant.grant_id, orjson.dumps(grant.streams).decode())
    return [(each, streams.get(each.name)) for each in terms]


def _held(grant: Grant) -> HeldGrant:
    return HeldGrant(
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


def _ended(*prefixes: str) -> Q:
    condition = Q()
    for prefix in prefixes:
        condition |= Q(**{f"{prefix}revoked_at__isnull": False})
    return condition


DATA_ACCESS = "https://pdpp.dev/data-access"
SHOWN = ("name", "instance_ids", "fields", "resources", "time_constraint")


def usable_grants(package_id: str, *, now: datetime) -> list[Grant]:
    """The grants of a package that hold now, oldest first, with their source and declaration."""
    rows = in_state(grants_with_state(now), State.ACTIVE).filter(package_id=package_id)
    return list(rows.select_related("declaration", "source").order_by("issued_at", "grant_id"))


def as_detail(grant: Grant) -> dict[str, Any]:
    """The grant as an RFC 9396 detail: what it came to, which may be less than was asked for."""
    detail: dict[str, Any] = {
        "type": DATA_ACCESS,
        "access_mode": grant.access_mode,
        "purpose_code": grant.purpose_code,
        "source": {"kind": grant.source.kind, "id": grant.source.source_id},
        "streams": [
            {name: stream[name] for name in SHOWN if name in stream} for stream in grant.streams
        ],
    }
    if grant.purpose_description:
        detail["purpose_description"] = grant.purpose_description
    if grant.retention is not None:
        detail["retention"] = grant.retention
    return detail


def held_by(package_id: str, *, now: datetime) -> dict[str, Any]:
    """``grant_id`` of a package's only grant, or else ``grant_package_id``, as answers name them."""
    grants = usable_grants(package_id, now=now)
    if len(grants) == 1:
        return {"grant_id": grants[0].grant_id}
    return {"grant_package_id": package_id}
