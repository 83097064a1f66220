"""Which stream, which connections, which fields: what a reader may ask of, before any row.

A field is usable here only where every grant concerned agrees; a request over connections of which
one hides the field is refused, so that what it hides can neither choose, order nor count rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from evidence.access.clauses import fields_clause, filters_clause
from evidence.access.scope import ConnectionFacts, Only, SourceFacts, StreamTerms
from evidence.declarations.layout import StreamLayout
from evidence.declarations.types import Field, StreamDeclaration
from evidence.refusals import FieldNotGranted, UnknownField


@dataclass(frozen=True, slots=True)
class Sight:
    """One stream of one grant, through the connections that are there now."""

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
        sights: tuple[Sight, ...],
    ) -> None:
        self.source = source
        self.stream = stream
        self.layout = layout
        self.sights = sights

    @cached_property
    def connections(self) -> tuple[ConnectionFacts, ...]:
        return tuple(facts for sight in self.sights for facts in sight.connections)

    @cached_property
    def sight_of(self) -> Mapping[str, Sight]:
        return {facts.connection_id: sight for sight in self.sights for facts in sight.connections}

    @cached_property
    def facts_of(self) -> Mapping[str, ConnectionFacts]:
        return {facts.connection_id: facts for facts in self.connections}

    def narrowed_to(self, connection_id: str | None) -> Self:
        """The same rows through one connection only; without sights when it has none."""
        if connection_id is None:
            return self
        sights = (
            Sight(sight.grant_id, sight.terms, (facts,))
            for sight in self.sights
            for facts in sight.connections
            if facts.connection_id == connection_id
        )
        return self.through(*sights)

    def through(self, *sights: Sight) -> Self:
        """The same rows as far as these sights of it go."""
        return type(self)(self.source, self.stream, self.layout, sights)

    def candidates(self) -> list[dict[str, object]]:
        """The connections, as an ambiguity names them."""
        return [
            {
                "connection_id": facts.connection_id,
                "display_name": facts.display_name,
                "connector_key": self.source.connector_key,
                "grant_id": sight.grant_id,
                "stream": self.stream.name,
            }
            for sight in self.sights
            for facts in sight.connections
        ]

    # Which fields

    def shows(self, field: str | None) -> bool:
        """Whether every grant concerned shows the field."""
        return field is not None and all(sight.terms.fields.allows(field) for sight in self.sights)

    def filters_by(self, field: str | None) -> bool:
        """Whether every grant concerned lets rows be chosen and ordered by the field."""
        return self.shows(field) and all(
            sight.terms.filters.allows(str(field)) for sight in self.sights
        )

    def shown_field(self, name: str, *, param: str) -> Field:
        """The declared field; raises ``UnknownField`` or ``FieldNotGranted``."""
        field = self.stream.fields.get(name)
        if field is None:
            raise UnknownField(
                message=f"The stream {self.stream.name!r} declares no field {name[:64]!r}.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists the fields.",
            )
        if not self.shows(name):
            raise FieldNotGranted(
                message=f"The field {name!r} is outside the grant.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists what is granted.",
            ).because(" ".join(self._hidden_by(name)))
        return field

    def filter_field(self, name: str, *, param: str) -> Field:
        """The declared field, where rows may also be chosen by it."""
        field = self.shown_field(name, param=param)
        if not self.filters_by(name):
            raise FieldNotGranted(
                message=f"The grant shows the field {name!r} but does not let rows be chosen by it.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists what is granted.",
            ).because(" ".join(self._not_chosen_by(name)))
        return field

    def _hidden_by(self, name: str) -> Iterator[str]:
        for sight in self.sights:
            if not sight.terms.fields.allows(name):
                yield fields_clause(sight.grant_id, sight.terms.fields, name)

    def _not_chosen_by(self, name: str) -> Iterator[str]:
        for sight in self.sights:
            if not sight.terms.filters.allows(name):
                yield filters_clause(sight.grant_id, sight.terms.filters, name)

    @cached_property
    def in_time_order(self) -> bool:
        """Whether the cursor field may order the rows; else their keys do, which say nothing."""
        return self.shows(self.stream.cursor_field)

    @property
    def is_whole(self) -> bool:
        """Whether no row of these connections is hidden, so that kept counters may be told."""
        return all(
            sight.terms.time is None and not isinstance(sight.terms.records, Only)
            for sight in self.sights
        )
