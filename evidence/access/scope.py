"""Frozen values that describe what one caller may see.

``evidence.access.tokens`` builds a ``Scope`` once per request, and the gate applies it. "All" and
"only these" are different types, so an empty list can only mean nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias


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

    ``identities`` are the names of the owner in the source, as ``declarations.roles.normalize_identity``
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
