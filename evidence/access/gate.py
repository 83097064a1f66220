"""The gate: from a scope to the rows that may be seen.

Readers get a ``VisibleRecords`` for a stream, or a typed refusal, and nothing else; there is no
way to a row that does not start here. A name that is not granted and a name that does not exist
are told apart only where the declaration, which is no secret, tells them apart
(design, decision 11), or where a grant of the caller's own that is paused names it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence.access.granted_streams import Sight
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts, GrantTerms, Scope, SourceFacts, StreamTerms
from evidence.errors import (
    AmbiguousConnection,
    ConnectionNotFound,
    GrantPaused,
    NotFound,
    Refusal,
    StreamNotGranted,
)
from evidence.models.sources import Declared, declared


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A source of the scope, its current declaration and what of it may be seen."""

    facts: SourceFacts
    declared: Declared
    streams: tuple[VisibleRecords, ...]


class Gate:
    """Opens what ``scope`` allows. Costs one query the first time a declaration is needed.

    With ``connector_id``, the key or the absolute id of a source, only what is of that source.
    """

    def __init__(self, scope: Scope, *, connector_id: str | None = None) -> None:
        self.scope = scope
        self._connector_id = connector_id

    @cached_property
    def sources(self) -> tuple[VisibleSource, ...]:
        """Every granted source, in the order of the connector keys.

        Raises ``NotFound`` where the one that was named is not among them.
        """
        facts = list(self._wanted())
        if self._connector_id is not None and not facts:
            raise self._missing(
                NotFound(param="connector_id", next_step="GET /v1/schema lists the connectors.")
            )
        documents = declared(source.declaration_pk for source in facts)
        return tuple(
            VisibleSource(
                source, documents[source.declaration_pk], self._streams_of(source, documents)
            )
            for source in facts
        )

    def _wanted(self) -> Iterator[SourceFacts]:
        pks = {grant.source_pk for grant in self.scope.grants}
        for pk, facts in self.scope.sources.items():
            if pk in pks and (self._connector_id is None or facts.is_called(self._connector_id)):
                yield facts

    def streams(
        self, *, names: Sequence[str] | None = None, connection_id: str | None = None
    ) -> tuple[VisibleRecords, ...]:
        """Every visible stream, or those ``names``; one entry for each source that has it."""
        self._require_connection(connection_id)
        everywhere = [visible for source in self.sources for visible in source.streams]
        if names is not None:
            for name in names:
                self._require_stream(name, connection_id)
            everywhere = [visible for visible in everywhere if visible.stream.name in names]
        narrowed = (visible.narrowed_to(connection_id) for visible in everywhere)
        return tuple(visible for visible in narrowed if visible.sights)

    def stream(self, name: str, *, connection_id: str | None = None) -> VisibleRecords:
        """The rows of one stream of one source, over all its connections or only the one named.

        Raises ``NotFound``, ``StreamNotGranted``, ``ConnectionNotFound``, and
        ``AmbiguousConnection`` when several sources have a stream of that name.
        """
        found = self.streams(names=[name], connection_id=connection_id)
        if len(found) > 1:
            raise AmbiguousConnection(
                [candidate for visible in found for candidate in visible.candidates()],
                message=f"Several sources have a stream {name!r}; name one by connection_id.",
            )
        return found[0]

    def _require_connection(self, connection_id: str | None) -> None:
        if connection_id is not None and connection_id not in self._connection_ids:
            refusal = ConnectionNotFound(
                param="connection_id", next_step="GET /v1/schema lists the connections."
            )
            raise self._missing(refusal, connection_id=connection_id)

    @cached_property
    def _connection_ids(self) -> frozenset[str]:
        return frozenset(
            facts.connection_id
            for source in self.sources
            for visible in source.streams
            for facts in visible.connections
        )

    def _require_stream(self, name: str, connection_id: str | None) -> None:
        """Refuses a name with nothing to see: 403 where a granted declaration has it, else 404."""
        declares = False
        for source in self.sources:
            if connection_id is not None and not _covers(source, connection_id):
                continue
            declares = declares or name in source.declared.declaration.streams
            for visible in source.streams:
                if visible.stream.name == name and visible.narrowed_to(connection_id).sights:
                    return
        kind = StreamNotGranted if declares else NotFound
        refusal = kind(param="stream", next_step="GET /v1/schema lists the streams.")
        raise self._missing(refusal, stream=name, connection_id=connection_id)

    def _missing(
        self, refusal: Refusal, *, stream: str | None = None, connection_id: str | None = None
    ) -> Refusal:
        """``refusal``, unless a paused grant leads to what was named: its own client knows of it."""
        for grant in self.scope.paused:
            if self._leads_to(grant, stream, connection_id):
                step = "GET /v1/schema lists what can be read until the owner resumes it."
                paused = GrantPaused(param=refusal.param, next_step=step)
                return paused.because(f"Grant {grant.grant_id} leads there, and is paused.")
        return refusal

    def _leads_to(self, grant: GrantTerms, stream: str | None, connection_id: str | None) -> bool:
        facts = self.scope.sources.get(grant.source_pk)
        if facts is None or not (self._connector_id is None or facts.is_called(self._connector_id)):
            return False
        return any(
            connection_id in (None, each.connection_id)
            for terms in grant.streams
            if stream in (None, terms.name)
            for each in self._connections(terms, grant.source_pk, set())
        )

    def _streams_of(
        self, source: SourceFacts, documents: dict[int, Declared]
    ) -> tuple[VisibleRecords, ...]:
        document = documents[source.declaration_pk]
        visible = []
        for name, stream in document.declaration.streams.items():
            sights = tuple(self._sights(source, name))
            if sights:
                layout = document.layout[name]
                visible.append(VisibleRecords(source, stream, layout, sights))
        return tuple(visible)

    def _sights(self, source: SourceFacts, stream: str) -> Iterator[Sight]:
        """One for each grant of the stream. A connection counts once: were two grants of a package
        ever to name it, the earlier one would hold, and nothing would be wider than one grant."""
        taken: set[str] = set()
        for grant, terms in _terms_of(self.scope, source.source_pk, stream):
            there = self._connections(terms, source.source_pk, taken)
            taken.update(facts.connection_id for facts in there)
            if there:
                yield Sight(grant.grant_id, terms, there)

    def _connections(
        self, terms: StreamTerms, source_pk: int, taken: set[str]
    ) -> tuple[ConnectionFacts, ...]:
        return tuple(
            facts
            for connection_id, facts in self.scope.connections.items()
            if connection_id in terms.connection_ids
            and facts.source_pk == source_pk
            and connection_id not in taken
        )


def _covers(source: VisibleSource, connection_id: str) -> bool:
    return any(
        facts.connection_id == connection_id
        for visible in source.streams
        for facts in visible.connections
    )


def _terms_of(
    scope: Scope, source_pk: int, stream: str
) -> Iterator[tuple[GrantTerms, StreamTerms]]:
    for grant in scope.grants:
        if grant.source_pk != source_pk:
            continue
        for terms in grant.streams:
            if terms.name == stream:
                yield grant, terms
