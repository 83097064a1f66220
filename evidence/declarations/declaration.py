"""A source declaration as frozen values.

Everything here comes out of `parse`, from a document without faults; nothing here checks anything.
Mappings are read-only by type: treat a declaration as a constant that threads may share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Kind = Literal["number", "time", "date", "boolean", "string", "array", "object", "mixed"]

RANGE_OPERATORS = ("gte", "gt", "lte", "lt")
AGGREGATIONS = ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
BLOB_REFERENCE = "blob_ref"
"""The field by which a record names its blob: `{"blob_id": ...}`, whatever its stream."""
TITLE_ROLE = "primary-title"
EVENT_TIME_ROLE = "event-time"
ACTOR_ROLE = "actor"
"""Who wrote the record, as a name: anybody may call themselves anything."""
ACTOR_ID_ROLE = "actor-id"
"""Who wrote the record, as the address or id by which the source knows them."""
DIRECTION_ROLE = "direction"
"""Where the source itself says whether its owner sent the record: a folder, say."""

_KINDS: Mapping[frozenset[str], Kind] = {
    frozenset({"integer"}): "number",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
    frozenset({"boolean"}): "boolean",
    frozenset({"string"}): "string",
    frozenset({"array"}): "array",
    frozenset({"object"}): "object",
}
_TEXT_KINDS: Mapping[str | None, Kind] = {"date-time": "time", "date": "date"}


def kind_of(types: tuple[str, ...], *, format: str | None) -> Kind:  # noqa: A002 the schema's word
    """What the values of a field are. `types` come without "null"; none, or several that are not
    both numbers, are "mixed"."""
    kind = _KINDS.get(frozenset(types), "mixed")
    return _TEXT_KINDS.get(format, kind) if kind == "string" else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One top-level field of a stream. `types` come without "null". `kind` is derived from them
    and the format, once, because it is asked for every value of every record."""

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
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", kind_of(self.types, format=self.format))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A way from a record of this stream to records of `stream`, always in the same connection.

    - has_many: `foreign_key` is a field of the *target*; it holds this record's key.
    - has_one: `foreign_key` is a field of *this* stream; it holds the target record's key.

    That is what the reference validator checks. (The protocol text words only the first; the
    example of contract 2 shows a has_one whose "foreign_key" fits either reading.)
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
    """One stream. `fields` stand in the order of the schema; `schema` is the document's own."""

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
    def title_field(self) -> str | None:
        """The first field whose role says that it names the record."""
        return self._first(TITLE_ROLE)

    @cached_property
    def event_time_field(self) -> str | None:
        """When the thing happened, by role; else the field of the time range, else nothing."""
        return self._first(EVENT_TIME_ROLE) or self.consent_time_field

    @cached_property
    def authorship(self) -> Mapping[str, str]:
        """The fields that tell who wrote a record, each with its role."""
        told_by = (ACTOR_ROLE, ACTOR_ID_ROLE, DIRECTION_ROLE)
        return {
            name: each.role
            for name, each in self.fields.items()
            if each.role and each.role in told_by
        }

    @cached_property
    def lexical_fields(self) -> tuple[str, ...]:
        """The fields that text search covers."""
        return tuple(name for name, each in self.fields.items() if each.lexical)

    def _first(self, role: str) -> str | None:
        return next((name for name, each in self.fields.items() if each.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeclaration:
    """A source at one version. `source_id` is its identity, `connector_key` its short name."""

    source_kind: Literal["connector", "provider_native"]
    source_id: str
    connector_key: str
    version: str
    display_name: str
    publisher: str | None
    streams: Mapping[str, StreamDeclaration]
