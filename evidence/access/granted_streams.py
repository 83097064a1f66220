"""Combine the grants of one stream into the connections, fields and filters that a caller may use.

A field is usable only if every affected grant allows it. A request over several connections, one of
which hides the field, is refused: a hidden value must not select, order or count rows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Final, Self

import orjson

from evidence.access.grant_text import fields_clause, filters_clause
from evidence.access.scope import ConnectionFacts, Only, SourceFacts, StreamTerms
from evidence.access.sql import SQL, join_sql
from evidence.declarations.declaration import Field, StreamDeclaration, array_item
from evidence.declarations.storage_layout import SLOTS, StreamLayout
from evidence.declarations.values import FilterValue, FilterValueError, parse_filter_value
from evidence.errors import FieldNotGranted, InvalidRequest, MissingAccess, UnknownField

MAX_MISSING_FIELDS = 20


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
CONSENT_TIME_CONDITION: Final = " AND r.consent_time "
"""How a condition on the consent time begins, which the index on time answers."""


def equals_filter(visible: VisibleStream, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field equals ``text``, or that an array contains it."""
    field = visible.filter_field(name, param=param)
    return SQL(" AND ") + _equals(visible, field, text, param)


def link_expression(visible: VisibleStream, name: str) -> SQL:
    """Return a foreign key or thread as an expression over ``r``: its column, or its JSON member."""
    column = visible.layout.get("links", {}).get(name)
    return SQL("r.data->>%s", (name,)) if column is None else SQL(f"r.link_{int(column)}")


def key_filter(visible: VisibleStream, name: str, key: str) -> SQL:
    """Return a condition that a foreign key or thread is ``key``, which its column answers."""
    name = visible.filter_field(name, param="key").name
    return SQL(" AND ") + link_expression(visible, name) + SQL(" = %s", (key,))


def includes_filter(visible: VisibleStream, name: str, texts: Sequence[str], *, param: str) -> SQL:
    """Return a condition that a field equals one of the texts, or that an array contains one."""
    field = visible.filter_field(name, param=param)
    equals = [_equals(visible, field, text, param) for text in texts]
    return SQL(" AND (") + join_sql(" OR ", equals) + SQL(")")


def excludes_filter(visible: VisibleStream, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field does not equal ``text``, or is missing."""
    field = visible.filter_field(name, param=param)
    return SQL(" AND NOT coalesce(") + _equals(visible, field, text, param) + SQL(", false)")


def contains_filter(visible: VisibleStream, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a text, or a text of an array, contains ``text`` in any case."""
    field = visible.filter_field(name, param=param)
    item = array_item(visible.stream, field) if field.kind == "array" else field
    if item is None or item.kind != "string":
        raise InvalidRequest(
            message=f"contains takes a text field; {name!r} is {field.kind}.", param=param
        )
    if field.kind == "array":
        return SQL(
            " AND jsonb_typeof(r.data->%s) = 'array' AND EXISTS (SELECT FROM"
            " jsonb_array_elements_text(CASE WHEN jsonb_typeof(r.data->%s) = 'array'"
            " THEN r.data->%s END) x WHERE strpos(lower(x), lower(%s)) > 0)",
            (name, name, name, text),
        )
    return SQL(" AND strpos(lower(r.data->>%s), lower(%s)) > 0", (name, text))


def time_filter(visible: VisibleStream, operator: str, instant: datetime, *, param: str) -> SQL:
    """Return a condition on the stream's own time. Raises ``InvalidRequest`` if it has none."""
    name = visible.stream.event_time_field
    column = None
    if name is not None:
        field = visible.filter_field(name, param=param)
        if name == visible.stream.consent_time_field:
            return SQL(f"{CONSENT_TIME_CONDITION}{SQL_OPERATORS[operator]} %s", (instant,))
        column = typed_column(visible, field)
    if column is None:
        raise InvalidRequest(
            message=f"The stream {visible.stream.name!r} has no time of its own.", param=param
        )
    return SQL(f" AND {column} {SQL_OPERATORS[operator]} %s", (instant,))


def has_own_time(visible: VisibleStream) -> bool:
    """Return whether ``time_filter`` works for the stream under this grant."""
    name = visible.stream.event_time_field
    if name is None or not visible.can_filter_by(name):
        return False
    is_consent_time = name == visible.stream.consent_time_field
    return is_consent_time or typed_column(visible, visible.stream.fields[name]) is not None


def _equals(visible: VisibleStream, field: Field, text: str, param: str) -> SQL:
    item = array_item(visible.stream, field) if field.kind == "array" else None
    if item is not None:
        value = _parse_value(item, text, param)
        return SQL("(r.data->%s) @> %s::jsonb", (field.name, f"[{_json(value, text)}]"))
    value = _parse_value(field, text, param)
    if isinstance(value, datetime):
        column = typed_column(visible, field)
        if column is not None:
            return SQL(f"{column} = %s", (value,))
    return SQL("r.data->%s = %s::jsonb", (field.name, _json(value, text)))


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


def number_expression(visible: VisibleStream, field: Field) -> SQL:
    """Return the value of a number field of ``r``; null where it is no number."""
    column = typed_column(visible, field)
    if column is not None:
        return SQL(column)
    return SQL(
        "(CASE WHEN jsonb_typeof(r.data->%s) = 'number' THEN (r.data->>%s)::numeric END)",
        (field.name, field.name),
    )


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
