"""What a caller may see, as frozen values.

Nothing here reads a row. A ``Scope`` is built once per request from the bearer
(``evidence.access.tokens``) and held by the gate; "all" and "only these" are different types, so
that an empty list can only ever mean nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias


class TokenKind(StrEnum):
    OWNER = "owner"
    CLIENT = "client"
    PACKAGE = "mcp_package"


@dataclass(frozen=True, slots=True)
class Everything:
    """No restriction."""

    def allows(self, name: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Only:
    """These names and no others; none of them when empty."""

    names: frozenset[str]

    def allows(self, name: str) -> bool:
        return name in self.names


Allowed: TypeAlias = Everything | Only


@dataclass(frozen=True, slots=True)
class TimeRange:
    """``since`` inclusive, ``until`` exclusive; a record without a consent time is outside."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FrozenRelation:
    """A relation as it stood when the grant was issued."""

    name: str
    stream: str
    foreign_key: str
    cardinality: str
    default_limit: int
    max_limit: int


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """What one grant says of one stream.

    ``fields`` may be seen; ``filters``, a subset of them, may also be filtered, sorted and
    aggregated by; ``views`` and ``relations`` may be used by name.
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
class Used:
    """One limit of a grant and how much of it was used since the period ``since`` began.

    ``measure`` is ``calls``, ``records`` or ``bytes``; ``period`` is ``minute``, ``hour`` or ``day``.
    """

    measure: str
    period: str
    most: int
    used: int
    since: datetime


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """One usable grant; ``grant_id`` is None for the owner's own reading. ``limits`` are as they
    stood when the bearer was looked up. The first answer that discloses something through a
    ``single_use`` grant sets when it closes."""

    grant_id: str | None
    source_pk: int
    streams: tuple[StreamTerms, ...]
    limits: tuple[Used, ...] = ()
    single_use: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """A connection of the owner that is not revoked. ``identities`` are how its source calls the
    owner, as ``declarations.authorship.known_as`` writes them."""

    connection_id: str
    display_name: str
    languages: tuple[str, ...]
    source_pk: int
    identities: tuple[str, ...] = ()
    index_edition: tuple[tuple[str, ...], int] = ((), 0)
    """Languages and analyzer version that the search text was indexed with."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source and the declaration that is current for it."""

    source_pk: int
    kind: str
    source_id: str
    connector_key: str
    display_name: str
    declaration_pk: int

    def is_called(self, connector_id: str) -> bool:
        """Whether a caller means this source: by its key or by its absolute id."""
        return connector_id in (self.connector_key, self.source_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks, and everything that this caller may be told about. ``paused`` are grants of theirs
    that show nothing until the owner resumes them."""

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
        """Names the rights behind a cursor: it changes when a grant is replaced."""
        if self.package_id is None:
            return self.owner_id
        return ":".join([self.package_id, *sorted(str(grant.grant_id) for grant in self.grants)])
