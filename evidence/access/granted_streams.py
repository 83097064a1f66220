"""Combine the grants of one stream into the connections, fields and filters that a caller may use.

A field is usable only if every affected grant allows it. A request over several connections, one of
which hides the field, is refused: a hidden value must not select, order or count rows.
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
from evidence.access.sql import SQL
from evidence.declarations.declaration import Field, StreamDeclaration
from evidence.declarations.filter_values import FilterValue, FilterValueError, parse_filter_value
from evidence.declarations.storage_layout import SLOTS, StreamLayout
from evidence.errors import FieldNotGranted, InvalidRequest, UnknownField


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

    def shown_field(self, name: str, *, param: str) -> Field:
        """Return a declared field. Raises ``UnknownField`` or ``FieldNotGranted``."""
        field = self.stream.fields.get(name)
        if field is None:
            raise UnknownField(
                message=f"The stream {self.stream.name!r} declares no field {name[:64]!r}.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists the fields.",
            )
        if not self.shows(name):
            raise FieldNotGranted(
                message=f"The grant does not include the field {name!r}.",
                param=param,
                next_step=f"GET /v1/schema?stream={self.stream.name} lists what is granted.",
            ).with_clause(" ".join(self._hiding_clauses(name)))
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

    def _hiding_clauses(self, name: str) -> Iterator[str]:
        for grant in self.granted:
            if not grant.terms.fields.allows(name):
                yield fields_clause(grant.grant_id, grant.terms.fields, name)

    def _unfilterable_clauses(self, name: str) -> Iterator[str]:
        for grant in self.granted:
            if not grant.terms.filters.allows(name):
                yield filters_clause(grant.grant_id, grant.terms.filters, name)

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


SLOT_COLUMNS: Final = {"n": "numbers", "t": "times", "w": "words"}
SQL_OPERATORS: Final = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


def equals_filter(visible: VisibleStream, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field equals ``text``, parsed as the declared type."""
    field = visible.filter_field(name, param=param)
    value = _parse_value(field, text, param)
    if isinstance(value, datetime):
        column = typed_column(visible, field)
        if column is not None:
            return SQL(f" AND {column} = %s", (value,))
    return SQL(" AND r.data->%s = %s::jsonb", (name, _json(value, text)))


def range_filter(visible: VisibleStream, name: str, operator: str, text: str, *, param: str) -> SQL:
    """Return a condition that compares a field with ``text``, by an operator that it declares."""
    field = visible.filter_field(name, param=param)
    if operator not in field.range_operators:
        declared = ", ".join(field.range_operators) or "none"
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {operator[:16]!r}; it declares: {declared}.",
            param=param,
        )
    value = _parse_value(field, text, param)
    if isinstance(value, str):
        return SQL(f' AND r.data->>%s COLLATE "C" {SQL_OPERATORS[operator]} %s', (name, value))
    # Every other type with a range operator has a typed column.
    return SQL(f" AND {typed_column(visible, field)} {SQL_OPERATORS[operator]} %s", (value,))


def typed_column(visible: VisibleStream, field: Field) -> str | None:
    """Return the typed column of a field as an expression over ``r``, or None if it has none."""
    assigned = visible.layout["typed"].get(field.name)
    if assigned is None or SLOTS.get(field.kind) != assigned[0]:
        return None
    slot, position = assigned
    return f"r.{SLOT_COLUMNS[slot]}[{int(position)}]"


def _parse_value(field: Field, text: str, param: str) -> FilterValue:
    try:
        return parse_filter_value(field, text)
    except FilterValueError as error:
        raise InvalidRequest(message=str(error), param=param) from error


def _json(value: FilterValue, text: str) -> str:
    # A number may have more digits than 64 bits hold.
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return orjson.dumps(text).decode()
    return orjson.dumps(value).decode()
