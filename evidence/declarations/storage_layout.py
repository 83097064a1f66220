"""Assign the fields of a stream to columns, array slots and search codes. A layout only grows.

Rows written under earlier versions keep their slots and codes, so an assignment belongs to its
field as long as the source exists, and new fields are appended. Writers fill *all* assignments,
including fields that the current version no longer declares; declaring such a field again then
needs no reindex. Readers ask the declaration whether a field exists.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal, NamedTuple, NotRequired, TypedDict

from evidence.declarations import values
from evidence.declarations.declaration import (
    THREAD_ROLE,
    Field,
    FieldKind,
    SourceDeclaration,
    StreamDeclaration,
)

Slot = Literal["n", "t", "w"]
"""The array of a field: numbers, times or words."""

SLOTS: Final[Mapping[FieldKind, Slot]] = {
    "number": "n",
    "time": "t",
    "date": "t",
    "string": "w",
    "boolean": "w",
}

LINK_COLUMNS: Final = 3
"""Indexed columns for foreign keys and threads; lookups by any further one are slow."""


class StreamLayout(TypedDict):
    """The layout of a stream, stored as JSON."""

    typed: dict[str, tuple[Slot, int]]
    """field -> (array, position from 1). Parsed JSON has a list here: unpack it, do not compare it."""
    widths: dict[Slot, int]
    """array -> positions ever assigned, including those of fields whose kind has changed."""
    search: dict[str, str]
    """field -> prefix of its search terms: a to z, then aa."""
    links: NotRequired[dict[str, int]]
    """foreign key or thread -> column from 1, at most LINK_COLUMNS; absent in old layouts."""
    sort: list[str] | None
    """[cursor field, its kind], the source of sort keys."""
    time: list[str] | None
    """[consent time field, its kind], the source of consent times."""


Layout = dict[str, StreamLayout]


class TypedColumns(NamedTuple):
    """The typed arrays of a record."""

    numbers: list[int | Decimal | None]
    times: list[datetime | None]
    words: list[str | None]


def build_layout(declaration: SourceDeclaration, previous: Layout | None) -> Layout:
    """Return the previous layout extended by the fields of a new version.

    Streams that the version no longer declares keep their layout.
    """
    previous = previous or {}
    current = {
        name: _stream_layout(stream, _linked_fields(declaration, name), previous=previous.get(name))
        for name, stream in declaration.streams.items()
    }
    return {**previous, **current}


def needs_reindex(previous: Layout | None, current: Layout) -> frozenset[str]:
    """Return the streams whose stored records do not match the current layout."""
    previous = previous or {}
    return frozenset(
        name
        for name, stream in current.items()
        if name in previous and _signature(previous[name]) != _signature(stream)
    )


def typed_columns(
    layout: StreamLayout, data: Mapping[str, object], *, fields: Mapping[str, Field]
) -> TypedColumns:
    """Return the typed arrays of a record, as wide as the layout.

    Missing values and values of another type are null, and so is what ``fields`` do not declare.
    """
    widths = layout["widths"]
    row = TypedColumns([None] * widths["n"], [None] * widths["t"], [None] * widths["w"])
    for name, (slot, position) in layout["typed"].items():
        value, field = data.get(name), fields.get(name)
        if value is None or field is None:
            continue
        index = position - 1
        if slot == "n":
            row.numbers[index] = values.to_number(value)
        elif slot == "t":
            row.times[index] = values.declared_time(field, value)
        else:
            row.words[index] = values.indexed_text(value)
    return row


def link_columns(layout: StreamLayout, data: Mapping[str, object]) -> list[str | None]:
    """Return the link columns of a record: the keys of other records, or null."""
    row: list[str | None] = [None] * LINK_COLUMNS
    for name, column in layout.get("links", {}).items():
        row[column - 1] = values.key_text(data.get(name))
    return row


def search_code(index: int) -> str:
    """Return the code of the search field at `index`, from 0: a, b, …, z, aa, ab, …"""
    letters = ""
    number = index + 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters


OWNER_CODE_CHARS = 3


def owner_code(owner_id: str) -> str:
    """Return the start of every lexeme of an owner, so that a search reads the index of one owner's words.

    Owners may share a code, which costs time and changes no answer.
    """
    return owner_id[:OWNER_CODE_CHARS].ljust(OWNER_CODE_CHARS, "_")


def in_code_order(codes: Iterable[str]) -> list[str]:
    """Return search codes in the order in which `search_code` assigns them."""
    return sorted(codes, key=lambda code: (len(code), code))


def _stream_layout(
    stream: StreamDeclaration, linked_fields: Iterable[str], *, previous: StreamLayout | None
) -> StreamLayout:
    layout: StreamLayout = {
        "typed": _assignments(previous) if previous else {},
        "widths": dict(previous["widths"]) if previous else {"n": 0, "t": 0, "w": 0},
        "search": dict(previous["search"]) if previous else {},
        "links": dict(previous.get("links", {})) if previous else {},
        "sort": _source(stream, stream.cursor_field),
        "time": _source(stream, stream.consent_time_field),
    }
    for field in _typed_fields(stream):
        slot = SLOTS[field.kind]
        assigned = layout["typed"].get(field.name)
        if assigned is None or assigned[0] != slot:
            layout["widths"][slot] += 1
            layout["typed"][field.name] = (slot, layout["widths"][slot])
    for name in stream.lexical_fields:
        layout["search"].setdefault(name, search_code(len(layout["search"])))
    for name in linked_fields:
        if len(layout["links"]) < LINK_COLUMNS:
            layout["links"].setdefault(name, len(layout["links"]) + 1)
    return layout


def _linked_fields(declaration: SourceDeclaration, name: str) -> list[str]:
    """Return the foreign keys of other streams that expand to this stream, then its thread."""
    foreign_keys = [
        relation.foreign_key
        for stream in declaration.streams.values()
        for relation in stream.relations.values()
        if relation.expandable and relation.cardinality == "has_many" and relation.stream == name
    ]
    fields = declaration.streams[name].fields.values()
    return [*foreign_keys, *(field.name for field in fields if field.role == THREAD_ROLE)]


def _typed_fields(stream: StreamDeclaration) -> Iterator[Field]:
    """Yield the fields that filters, aggregations, the order or the time range use."""
    for name, field in stream.fields.items():
        is_queried = field.range_operators or field.aggregations
        has_role = name in {stream.cursor_field, stream.consent_time_field}
        if (is_queried or has_role) and field.kind in SLOTS:
            yield field


def _source(stream: StreamDeclaration, name: str | None) -> list[str] | None:
    return None if name is None else [name, stream.fields[name].kind]


def _assignments(layout: StreamLayout) -> dict[str, tuple[Slot, int]]:
    return {name: (slot, position) for name, (slot, position) in layout["typed"].items()}


def _signature(layout: StreamLayout) -> tuple[object, ...]:
    return (
        _assignments(layout),
        layout["search"],
        layout.get("links", {}),
        layout["sort"],
        layout["time"],
    )
