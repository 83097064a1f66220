"""What one caller may see: the terms of its grants, and the streams that they show.

``evidence.access.tokens`` builds a ``Scope`` once per request, and the gate applies it. "All" and
"only these" are different types, so an empty list can only mean nothing.

A field is usable only if every affected grant allows it. A request over several connections, one of
which hides the field, is refused: a hidden value must not select, order or count rows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Self, TypeAlias

from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.declarations.storage_layout import StreamLayout
from evidence.errors import FieldNotGranted, InvalidRequest, MissingAccess, UnknownField

MAX_MISSING_FIELDS = 20
MAX_NAMES = 12


class TokenKind(StrEnum):
    OWNER = "owner"
    CLIENT = "client"
    PACKAGE = "mcp_package"
    COLLECTOR = "collector"


@dataclass(frozen=True, slots=True)
class Everything:
    """No restriction."""

    def allows(self, name: str) -> bool:
        return True

    def project(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the allowed members of an object."""
        return data


@dataclass(frozen=True, slots=True)
class Only:
    """A restriction to these names; an empty set allows nothing."""

    names: frozenset[str]

    def allows(self, name: str) -> bool:
        return name in self.names

    def project(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the allowed members of an object."""
        names = self.names
        return {name: value for name, value in data.items() if name in names}


Allowed: TypeAlias = Everything | Only


@dataclass(frozen=True, slots=True)
class TimeRange:
    """``since`` inclusive, ``until`` exclusive. A record without a consent time is outside."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FrozenRelation:
    """A relation as the source declared it when the grant was issued."""

    name: str
    stream: str
    foreign_key: str
    cardinality: str
    default_limit: int
    max_limit: int


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """The terms of one grant for one stream.

    ``fields`` are visible; ``filters``, a subset of them, may also filter, sort and aggregate;
    ``views`` and ``relations`` may be used by name.
    """

    name: str
    connection_ids: frozenset[str]
    fields: Allowed
    filters: Allowed
    views: Allowed
    relations: tuple[FrozenRelation, ...] | Everything
    records: Allowed
    time: TimeRange | None


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """A quota of a grant and how much of it was used since its period began at ``since``.

    ``measure`` is ``calls``, ``records`` or ``bytes``; ``period`` is ``minute``, ``hour`` or ``day``;
    ``most`` is the maximum.
    """

    measure: str
    period: str
    most: int
    used: int
    since: datetime


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """One usable grant. ``grant_id`` is None when the owner reads their own data.

    ``limits`` are the quotas as the token lookup found them. The first answer that discloses
    something through a ``single_use`` grant sets when the grant closes. A temporary grant ``extends``
    another of the package, comes before it, and counts for its quotas.
    """

    grant_id: str | None
    source_pk: int
    streams: tuple[StreamTerms, ...]
    limits: tuple[QuotaUsage, ...] = ()
    single_use: bool = False
    extends: str | None = None

    @property
    def charged_grant(self) -> str:
        """The grant whose quotas a read through this one counts for."""
        return self.extends or str(self.grant_id)


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """A connection of the owner that is not revoked.

    ``identities`` are the names of the owner in the source, as ``declarations.declaration.normalize_identity``
    writes them.
    """

    connection_id: str
    display_name: str
    languages: tuple[str, ...]
    source_pk: int
    identities: tuple[str, ...] = ()
    index_edition: tuple[tuple[str, ...], int] = ((), 0)
    """Languages and analyzer version that the search text was indexed with."""
    is_demo: bool = False


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source and its current declaration."""

    source_pk: int
    kind: str
    source_id: str
    connector_key: str
    display_name: str
    declaration_pk: int

    def is_called(self, connector_id: str) -> bool:
        """Return whether ``connector_id`` is the key or the absolute id of this source."""
        return connector_id in (self.connector_key, self.source_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """A caller and everything that the caller may see.

    ``paused`` are grants of the caller that show nothing until the owner resumes them.
    """

    kind: TokenKind
    token_id: str
    owner_id: str
    client_id: str | None
    package_id: str | None
    expires_at: datetime | None
    grants: tuple[GrantTerms, ...]
    sources: Mapping[int, SourceFacts]
    connections: Mapping[str, ConnectionFacts]
    paused: tuple[GrantTerms, ...] = ()

    @property
    def binding(self) -> str:
        """Return an identifier of the caller's rights; it changes when a grant is replaced."""
        if self.package_id is None:
            return self.owner_id
        return ":".join([self.package_id, *sorted(str(grant.grant_id) for grant in self.grants)])


@dataclass(frozen=True, slots=True)
class GrantedStream:
    """One stream of one grant, through the connections that exist now."""

    grant_id: str | None
    terms: StreamTerms
    connections: tuple[ConnectionFacts, ...]


class VisibleStream:
    """One stream of one source with the terms of every grant that covers it."""

    def __init__(
        self,
        source: SourceFacts,
        stream: StreamDeclaration,
        layout: StreamLayout,
        granted: tuple[GrantedStream, ...],
    ) -> None:
        self.source = source
        self.stream = stream
        self.layout = layout
        self.granted = granted

    @cached_property
    def connections(self) -> tuple[ConnectionFacts, ...]:
        return tuple(facts for grant in self.granted for facts in grant.connections)

    @cached_property
    def grant_for(self) -> Mapping[str, GrantedStream]:
        """The grant of each connection id."""
        return {facts.connection_id: grant for grant in self.granted for facts in grant.connections}

    @cached_property
    def connection_for(self) -> Mapping[str, ConnectionFacts]:
        return {facts.connection_id: facts for facts in self.connections}

    def for_connection(self, connection_id: str | None) -> Self:
        """Return the same rows through one connection; without grants if it has none."""
        if connection_id is None:
            return self
        granted = (
            GrantedStream(grant.grant_id, grant.terms, (facts,))
            for grant in self.granted
            for facts in grant.connections
            if facts.connection_id == connection_id
        )
        return self.restricted_to(*granted)

    def restricted_to(self, *granted: GrantedStream) -> Self:
        """Return the same rows through these grants only."""
        return type(self)(self.source, self.stream, self.layout, granted)

    def candidates(self) -> list[dict[str, object]]:
        """Return the connections as an ``AmbiguousConnection`` error lists them."""
        return [
            {
                "connection_id": facts.connection_id,
                "display_name": facts.display_name,
                "connector_key": self.source.connector_key,
                "grant_id": grant.grant_id,
                "stream": self.stream.name,
            }
            for grant in self.granted
            for facts in grant.connections
        ]

    def shows(self, field: str | None) -> bool:
        """Return whether every grant shows the field."""
        return field is not None and all(grant.terms.fields.allows(field) for grant in self.granted)

    def can_filter_by(self, field: str | None) -> bool:
        """Return whether every grant allows the field to select and order rows."""
        return self.shows(field) and all(
            grant.terms.filters.allows(str(field)) for grant in self.granted
        )

    def shown_field(self, name: str, *, param: str, among: Sequence[str] = ()) -> Field:
        """Return a declared field. Raises ``UnknownField`` or ``FieldNotGranted``.

        ``among`` are all fields that the call names, so that the owner can be asked for them at once.
        """
        field = self.stream.fields.get(name)
        if field is None:
            raise UnknownField(
                message=f"The stream {self.stream.name!r} declares no field {name[:64]!r}.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists the fields.",
            )
        if not self.shows(name):
            refusal = FieldNotGranted(
                message=f"The grant does not include the field {name!r}.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists what is granted.",
            ).with_clause(" ".join(self._hiding_clauses(name)))
            refusal.missing = self._missing_fields(name, {name, *among})
            raise refusal
        return field

    def filter_field(self, name: str, *, param: str) -> Field:
        """Return a declared field that may select rows. Raises like ``shown_field``."""
        field = self.shown_field(name, param=param)
        if not self.can_filter_by(name):
            raise FieldNotGranted(
                message=f"The grant shows the field {name!r} but does not allow filtering by it.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists what is granted.",
            ).with_clause(" ".join(self._unfilterable_clauses(name)))
        return field

    def _missing_fields(self, name: str, named: Collection[str]) -> MissingAccess:
        """Return the named fields that the first grant which hides ``name`` would have to include."""
        hiding = next(grant for grant in self.granted if not grant.terms.fields.allows(name))
        hidden = [
            field for field in self.stream.fields
            if field in named and not hiding.terms.fields.allows(field)
        ]  # fmt: skip
        key = self.source.connector_key
        fields = tuple(hidden[:MAX_MISSING_FIELDS])
        return MissingAccess(str(hiding.grant_id), key, self.stream.name, fields)

    def _hiding_clauses(self, name: str) -> Iterator[str]:
        for grant in self.granted:
            if not grant.terms.fields.allows(name):
                yield _fields_clause(grant.grant_id, grant.terms.fields, name)

    def _unfilterable_clauses(self, name: str) -> Iterator[str]:
        for grant in self.granted:
            if not grant.terms.filters.allows(name):
                yield _filters_clause(grant.grant_id, grant.terms.filters, name)

    @cached_property
    def in_time_order(self) -> bool:
        """Whether the cursor field orders the rows. If it is hidden, record keys order them."""
        return self.shows(self.stream.cursor_field)

    @property
    def hides_no_rows(self) -> bool:
        """Whether every row of these connections is visible, so that stored counters apply."""
        return all(
            grant.terms.time is None and not isinstance(grant.terms.records, Only)
            for grant in self.granted
        )


def _fields_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return f"Grant {grant_id} includes the fields {_names(allowed)}; it does not include “{field}”."


def _filters_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return (
        f"Grant {grant_id} shows “{field}”, but allows filtering and sorting only by"
        f" {_names(allowed)}."
    )


def _names(allowed: Allowed) -> str:
    names = sorted(allowed.names) if isinstance(allowed, Only) else ["(all)"]
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "") or "(none)"


def select_fields(
    visible: VisibleStream, *, fields: Sequence[str] | None, view: str | None
) -> frozenset[str] | None:
    """Return the fields in ``fields`` or of ``view``, or None for all granted fields.

    The primary key is always included.
    """
    if fields is not None and view is not None:
        raise InvalidRequest(message="Give fields or view, not both.", param="view")
    if view is not None:
        fields = _view_fields(visible, view)
    if fields is None:
        return None
    for name in fields:
        visible.shown_field(name, param="fields", among=fields)
    return frozenset(fields) | frozenset(visible.stream.primary_key)


def granted_views(visible: VisibleStream) -> tuple[str, ...]:
    """Return the views that the grants include, with all of their fields."""
    return tuple(
        name
        for name, view in visible.stream.views.items()
        if all(grant.terms.views.allows(name) for grant in visible.granted)
        and all(visible.shows(field) for field in view.fields)
    )


def _view_fields(visible: VisibleStream, name: str) -> Sequence[str]:
    allowed = granted_views(visible)
    if name not in allowed:
        raise InvalidRequest(
            message=f"The grant does not include this view; these: {', '.join(allowed) or 'none'}.",
            param="view",
        )
    return visible.stream.views[name].fields
