"""Represent a source declaration as frozen dataclasses: source, streams, fields, relations, views.

`parser` builds them from a valid document. Treat them as constants: threads share them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
FieldKind = Literal["number", "time", "date", "boolean", "string", "array", "object", "mixed"]

RANGE_OPERATORS = ("gte", "gt", "lte", "lt")
AGGREGATIONS = ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
BLOB_REFERENCE = "blob_ref"
"""The field of any stream that names the blob of a record: `{"blob_id": ...}`."""
TITLE_ROLE = "primary-title"
EVENT_TIME_ROLE = "event-time"
ACTOR_ROLE = "actor"
"""The author of a record by name. Anyone can use any name."""
ACTOR_ID_ROLE = "actor-id"
"""The author of a record by address or id in the source."""
PARTICIPANT_ROLE = "participant"
"""Other people of a record: names, addresses, numbers or ``Name <address>``. For the owner alone."""
ADDRESS_ROLE = "address"
"""Addresses, numbers or ids of whom a record names: its actor, or, without one, its title.

It joins records of one person on the owner's pages and proves nothing about the author.
"""
THREAD_ROLE = "thread"
"""Records of a stream with the same value belong to one thread."""
PLACE_ROLE = "place"
"""Where a record belongs: the conversation of a message, the location of an event. Hits show it."""
AMOUNT_TYPE, TEXT_TYPE = "currency", "text"
DIRECTION_ROLE = "direction"
"""A field that tells whether the owner sent a record, such as its folder."""

_KINDS_BY_TYPE: Mapping[frozenset[str], FieldKind] = {
    frozenset({"integer"}): "number",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
    frozenset({"boolean"}): "boolean",
    frozenset({"string"}): "string",
    frozenset({"array"}): "array",
    frozenset({"object"}): "object",
}
_KINDS_BY_FORMAT: Mapping[str | None, FieldKind] = {"date-time": "time", "date": "date"}


def field_kind(types: tuple[str, ...], *, format: str | None) -> FieldKind:  # noqa: A002 - the keyword of JSON Schema
    """Return the kind of values of a field, from its types without "null".

    No type, and several types that are not both numbers, are "mixed".
    """
    kind = _KINDS_BY_TYPE.get(frozenset(types), "mixed")
    return _KINDS_BY_FORMAT.get(format, kind) if kind == "string" else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A top-level field of a stream, with its types without "null".

    `kind` is computed once, because every value of every record needs it.
    """

    name: str
    types: tuple[str, ...]
    nullable: bool
    format: str | None
    pdpp_type: str | None
    role: str | None
    schema: Mapping[str, Json]
    lexical: bool
    semantic: bool
    range_operators: tuple[str, ...]
    aggregations: frozenset[str]
    kind: FieldKind = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", field_kind(self.types, format=self.format))


USABLE_AGGREGATIONS = ("count_distinct", "group_by", "group_by_time", "sum", "avg", "min", "max")
NUMBER_AGGREGATIONS = ("sum", "avg", "min", "max")
"""The aggregations of every number, declared or not."""


KEY_AGGREGATIONS = ("count_distinct", "group_by")
"""The aggregations of every short text and boolean, declared or not."""


def is_long_text(field: Field) -> bool:
    """Return whether a text is declared as one to read, or to be searched by its meaning."""
    return field.kind == "string" and (field.pdpp_type == TEXT_TYPE or field.semantic)


def is_aggregatable(field: Field, use: str) -> bool:
    """Return whether a field declares an aggregation, or has it anyway by its type."""
    if use in field.aggregations:
        return True
    if field.kind in ("string", "boolean"):
        return use in KEY_AGGREGATIONS and not is_long_text(field)
    return field.kind == "number" and use in NUMBER_AGGREGATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation of this stream to `stream`, between records of one connection.

    - has_many: `foreign_key` is a field of the *target*; it contains the key of this record.
    - has_one: `foreign_key` is a field of *this* stream; it contains the key of the target record.

    The reference validator checks this; the protocol text describes only has_many.
    """

    name: str
    stream: str
    foreign_key: str
    cardinality: Literal["has_many", "has_one"]
    default_limit: int
    max_limit: int
    expandable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A named selection of fields."""

    id: str
    label: str
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StreamDeclaration:
    """A stream of a source. `fields` are in the order of the schema."""

    name: str
    description: str | None
    label: str | None
    detail: str | None
    semantics: Literal["append_only", "mutable_state"]
    primary_key: tuple[str, ...]
    cursor_field: str | None
    consent_time_field: str | None
    fields: Mapping[str, Field]
    views: Mapping[str, View]
    relations: Mapping[str, Relation]
    selection_fields: bool
    selection_resources: bool
    schema: Mapping[str, Json]
    required: tuple[str, ...]
    count: bool

    @cached_property
    def money_fields(self) -> frozenset[str]:
        """The number fields that declare money, validly or not."""
        return frozenset(
            name for name, field in self.fields.items()
            if field.kind == "number" and "x_pdpp_money" in field.schema
        )  # fmt: skip

    @cached_property
    def title_field(self) -> str | None:
        """The first field with the title role."""
        return self._first(TITLE_ROLE)

    @cached_property
    def heading_field(self) -> str | None:
        """The title, unless this is the text itself, as in a chat message."""
        title = self.title_field
        if title is None or self.actor_field is None:
            return title
        is_text = self.fields[title].pdpp_type == TEXT_TYPE or self.lexical_fields == (title,)
        return None if is_text else title

    @cached_property
    def event_time_field(self) -> str | None:
        """The first field with the event time role, or else the field of the time range."""
        return self._first(EVENT_TIME_ROLE) or self.consent_time_field

    @cached_property
    def has_dates_only(self) -> bool:
        """Whether the field of the time range is a date, which is the same in every time zone."""
        field = self.fields.get(self.consent_time_field or "")
        return field is not None and field.kind == "date"

    @cached_property
    def actor_field(self) -> str | None:
        """The author by name, or else by address or id."""
        return self._first(ACTOR_ROLE) or self._first(ACTOR_ID_ROLE)

    @cached_property
    def place_field(self) -> str | None:
        """The first field with the place role."""
        return self._first(PLACE_ROLE)

    @property
    def twin_fields(self) -> tuple[str, ...]:
        """The fields by which records with different keys are the same.

        Of ``a|b``, b is the field of records without a.
        """
        names = self.schema.get("x_pdpp_twin_fields")
        texts = (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
        return tuple(name for name in texts if self.fields.keys() >= set(name.split("|")))

    @cached_property
    def amount_field(self) -> str | None:
        """The first field with an amount of money."""
        return next((n for n, field in self.fields.items() if field.pdpp_type == AMOUNT_TYPE), None)

    @cached_property
    def authorship(self) -> Mapping[str, str]:
        """The roles of the fields that determine the author of a record, by field name."""
        roles = (ACTOR_ROLE, ACTOR_ID_ROLE, DIRECTION_ROLE)
        return {name: field.role for name, field in self.fields.items() if field.role in roles}

    @cached_property
    def lexical_fields(self) -> tuple[str, ...]:
        """The names of the fields that text search covers."""
        return tuple(name for name, field in self.fields.items() if field.lexical)

    def _first(self, role: str) -> str | None:
        return next((name for name, field in self.fields.items() if field.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeclaration:
    """One version of a source, with its URI and its short name."""

    source_kind: Literal["connector", "provider_native"]
    source_id: str
    connector_key: str
    version: str
    display_name: str
    publisher: str | None
    streams: Mapping[str, StreamDeclaration]
