"""Open the streams that a scope grants; every read of personal rows starts here.

Readers get a ``VisibleRecords`` for a stream, or an error. Errors for a name that is not granted
and for a name that does not exist differ only where the declaration, which is not secret, shows the
difference (design, decision 11), or where a paused grant of the caller names it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence.access.records import VisibleRecords
from evidence.access.scope import (
    ConnectionFacts,
    GrantedStream,
    GrantTerms,
    Scope,
    SourceFacts,
    StreamTerms,
)
from evidence.errors import (
    AmbiguousConnection,
    ApiException,
    ConnectionNotFound,
    GrantPaused,
    MissingAccess,
    NotFound,
    StreamNotGranted,
)
from evidence.models.sources import StoredDeclaration, load_declarations


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A source of the scope with its current declaration and its visible streams."""

    facts: SourceFacts
    declared: StoredDeclaration
    streams: tuple[VisibleRecords, ...]


class Gate:
    """Opens the streams of ``scope``. Runs one query the first time it needs a declaration.

    ``connector_id``, the key or absolute id of a source, restricts the gate to that source.
    """

    def __init__(self, scope: Scope, *, connector_id: str | None = None) -> None:
        self.scope = scope
        self._connector_id = connector_id

    @cached_property
    def sources(self) -> tuple[VisibleSource, ...]:
        """Every granted source, ordered by connector key.

        Raises ``NotFound`` if ``connector_id`` names no granted source.
        """
        facts = list(self._requested_sources())
        if self._connector_id is not None and not facts:
            raise self._missing(
                NotFound(param="connector_id", next_step="GET /v1/schema lists the connectors.")
            )
        documents = load_declarations(source.declaration_pk for source in facts)
        return tuple(
            VisibleSource(
                source, documents[source.declaration_pk], self._streams_of(source, documents)
            )
            for source in facts
        )

    def _requested_sources(self) -> Iterator[SourceFacts]:
        pks = {grant.source_pk for grant in self.scope.grants}
        for pk, facts in self.scope.sources.items():
            if pk in pks and (self._connector_id is None or facts.is_called(self._connector_id)):
                yield facts

    def streams(
        self, *, names: Sequence[str] | None = None, connection_id: str | None = None
    ) -> tuple[VisibleRecords, ...]:
        """Return every visible stream, or those in ``names``, once for each source that has it."""
        self._require_connection(connection_id)
        streams = [visible for source in self.sources for visible in source.streams]
        if names is not None:
            for name in names:
                self._require_stream(name, connection_id)
            streams = [visible for visible in streams if visible.stream.name in names]
        through_connection = (visible.for_connection(connection_id) for visible in streams)
        return tuple(visible for visible in through_connection if visible.granted)

    def stream(self, name: str, *, connection_id: str | None = None) -> VisibleRecords:
        """Return one stream of one source, over all its connections or only the named one.

        Raises ``NotFound``, ``StreamNotGranted``, ``ConnectionNotFound``, or ``AmbiguousConnection``
        if several sources have a stream of that name.
        """
        streams = self.streams(names=[name], connection_id=connection_id)
        if len(streams) > 1:
            raise AmbiguousConnection(
                [candidate for visible in streams for candidate in visible.candidates()],
                message=f"Several sources have a stream {name!r}; name one by connection_id.",
            )
        return streams[0]

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
        """Raise for a stream that shows nothing: 403 if a granted source declares it, else 404."""
        sources = [
            source
            for source in self.sources
            if connection_id is None or _covers(source, connection_id)
        ]
        for source in sources:
            for visible in source.streams:
                if visible.stream.name == name and visible.for_connection(connection_id).granted:
                    return
        declaring = [
            source.facts for source in sources if name in source.declared.declaration.streams
        ]
        kind = StreamNotGranted if declaring else NotFound
        refusal: ApiException = kind(param="stream", next_step="GET /v1/schema lists the streams.")
        if len(declaring) == 1:
            refusal.missing = self._missing_stream(declaring[0], name, connection_id)
        raise self._missing(refusal, stream=name, connection_id=connection_id)

    def _missing_stream(
        self, source: SourceFacts, stream: str, connection_id: str | None
    ) -> MissingAccess | None:
        """Return what the first grant of the source, or of the connection, would have to include."""
        for grant in self.scope.grants:
            if grant.source_pk == source.source_pk and any(
                connection_id is None or connection_id in terms.connection_ids
                for terms in grant.streams
            ):
                return MissingAccess(str(grant.grant_id), source.connector_key, stream)
        return None

    def _missing(
        self, refusal: ApiException, *, stream: str | None = None, connection_id: str | None = None
    ) -> ApiException:
        """Return ``refusal``, or ``GrantPaused`` if a paused grant of the caller covers the name."""
        for grant in self.scope.paused:
            if self._includes(grant, stream, connection_id):
                step = "GET /v1/schema lists what can be read until the owner resumes it."
                paused = GrantPaused(param=refusal.param, next_step=step)
                return paused.with_clause(f"Grant {grant.grant_id} includes it, and is paused.")
        return refusal

    def _includes(self, grant: GrantTerms, stream: str | None, connection_id: str | None) -> bool:
        facts = self.scope.sources.get(grant.source_pk)
        if facts is None or not (self._connector_id is None or facts.is_called(self._connector_id)):
            return False
        return any(
            connection_id in (None, connection.connection_id)
            for terms in grant.streams
            if stream in (None, terms.name)
            for connection in self._connections(terms, grant.source_pk, set())
        )

    def _streams_of(
        self, source: SourceFacts, documents: dict[int, StoredDeclaration]
    ) -> tuple[VisibleRecords, ...]:
        document = documents[source.declaration_pk]
        streams = []
        for name, stream in document.declaration.streams.items():
            granted = tuple(self._granted(source, name))
            if granted:
                streams.append(VisibleRecords(source, stream, document.layout[name], granted))
        return tuple(streams)

    def _granted(self, source: SourceFacts, stream: str) -> Iterator[GrantedStream]:
        """Yield the stream as each grant has it.

        Each connection counts once. If two grants of a package name it, the earlier one applies: a
        temporary grant comes before the grant that it extends.
        """
        covered: set[str] = set()
        for grant in self.scope.grants:
            if grant.source_pk != source.source_pk:
                continue
            for terms in grant.streams:
                if terms.name != stream:
                    continue
                connections = self._connections(terms, source.source_pk, covered)
                covered.update(facts.connection_id for facts in connections)
                if connections:
                    yield GrantedStream(grant.grant_id, terms, connections)

    def _connections(
        self, terms: StreamTerms, source_pk: int, covered: set[str]
    ) -> tuple[ConnectionFacts, ...]:
        return tuple(
            facts
            for connection_id, facts in self.scope.connections.items()
            if connection_id in terms.connection_ids
            and facts.source_pk == source_pk
            and connection_id not in covered
        )


def _covers(source: VisibleSource, connection_id: str) -> bool:
    return any(
        facts.connection_id == connection_id
        for visible in source.streams
        for facts in visible.connections
    )
