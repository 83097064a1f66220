"""Which stream, which connections, which fields: what a reader may ask of, before any row.

A field is usable here only where every grant concerned agrees; a request over connections of which
one hides the field is refused, so that what it hides can neither choose, order nor count rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Final, Self

import orjson

from evidence.access.grant_text import fields_clause, filters_clause
from evidence.access.scope import ConnectionFacts, Only, SourceFacts, StreamTerms
from evidence.access.sql import Fragment
from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.declarations.filter_values import CoercionError, Value, coerce
from evidence.declarations.storage_layout import SLOTS, StreamLayout
from evidence.errors import FieldNotGranted, InvalidRequest, UnknownField


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


ARRAYS: Final = {"n": "numbers", "t": "times", "w": "words"}
OPERATORS: Final = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


def equals(visible: VisibleStream, name: str, text: str, *, param: str) -> Fragment:
    """Rows whose field has the value that ``text`` is for its declared type."""
    field = visible.filter_field(name, param=param)
    value = _coerced(field, text, param)
    if isinstance(value, datetime):
        column = typed_column(visible, field)
        if column is not None:
            return Fragment(f" AND {column} = %s", (value,))
    return Fragment(" AND r.data->%s = %s::jsonb", (name, _json(value, text)))


def compares(
    visible: VisibleStream, name: str, operator: str, text: str, *, param: str
) -> Fragment:
    """Rows whose field lies beyond ``text``; the operator must be declared for the field."""
    field = visible.filter_field(name, param=param)
    if operator not in field.range_operators:
        declared = ", ".join(field.range_operators) or "none"
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {operator[:16]!r}; it declares: {declared}.",
            param=param,
        )
    value = _coerced(field, text, param)
    if isinstance(value, str):
        return Fragment(f' AND r.data->>%s COLLATE "C" {OPERATORS[operator]} %s', (name, value))
    # Whatever else declares an operator has a column.
    return Fragment(f" AND {typed_column(visible, field)} {OPERATORS[operator]} %s", (value,))


def typed_column(visible: VisibleStream, field: Field) -> str | None:
    """The typed slot of a field as an expression over ``r``, or None when it has none."""
    assigned = visible.layout["typed"].get(field.name)
    if assigned is None or SLOTS.get(field.kind) != assigned[0]:
        return None
    slot, position = assigned
    return f"r.{ARRAYS[slot]}[{int(position)}]"


def _coerced(field: Field, text: str, param: str) -> Value:
    try:
        return coerce(field, text)
    except CoercionError as error:
        raise InvalidRequest(message=str(error), param=param) from error


def _json(value: Value, text: str) -> str:
    # A number may have more digits than 64 bits hold.
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return orjson.dumps(text).decode()
    return orjson.dumps(value).decode()
