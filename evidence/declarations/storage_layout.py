"""Where the values of a stream are stored: slots in the typed arrays, codes in the search text,
columns for the keys by which other streams reach it.

A layout only grows. A slot or a code, once given, belongs to its field for as long as the source
exists, because rows written under earlier versions keep it; new fields are appended. Writers fill
*every* assignment, also of a field that the current version no longer declares, so that declaring
it again needs no work; readers ask the declaration whether a field may be used.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal, NamedTuple, NotRequired, TypedDict

from evidence.declarations import values
from evidence.declarations.declaration import Field, Kind, SourceDeclaration, StreamDeclaration

Slot = Literal["n", "t", "w"]
"""Which array: numbers, times or words."""

SLOTS: Final[Mapping[Kind, Slot]] = {
    "number": "n",
    "time": "t",
    "date": "t",
    "string": "w",
    "boolean": "w",
}


LINKS: Final = 3
"""Columns for foreign keys; of a stream that is reached by more, the others are looked up slowly."""


class StreamLayout(TypedDict):
    """One stream, as JSON."""

    typed: dict[str, tuple[Slot, int]]
    """field -> (array, position from 1). A list once it has been JSON: unpack it, never compare."""
    widths: dict[Slot, int]
    """array -> positions ever given, also to fields whose kind has changed since."""
    search: dict[str, str]
    """field -> letters before its terms: a to z, then aa."""
    links: NotRequired[dict[str, int]]
    """foreign key -> column from 1, for as many as there are columns; absent in old layouts."""
    sort: list[str] | None
    """[cursor field, its kind]: what sort keys were made of."""
    time: list[str] | None
    """[consent time field, its kind]: what consent times were made of."""


Layout = dict[str, StreamLayout]


class Columns(NamedTuple):
    """The typed arrays of one record."""

    numbers: list[int | Decimal | None]
    times: list[datetime | None]
    words: list[str | None]


def build_layout(declaration: SourceDeclaration, previous: Layout | None) -> Layout:
    """The layout of a new version: everything of the previous one, and what the version adds.
    Streams that the version no longer declares are kept as they were."""
    earlier = previous or {}
    current = {
        name: _stream(stream, _links(declaration, name), previous=earlier.get(name))
        for name, stream in declaration.streams.items()
    }
    return {**earlier, **current}


def needs_reindex(previous: Layout | None, current: Layout) -> frozenset[str]:
    """The streams whose stored records lack something that the current layout promises."""
    earlier = previous or {}
    return frozenset(
        name
        for name, stream in current.items()
        if name in earlier and _signature(earlier[name]) != _signature(stream)
    )


def columns(layout: StreamLayout, data: Mapping[str, object]) -> Columns:
    """The typed arrays of a record, as wide as the layout; what is missing or of another type is
    null."""
    widths = layout["widths"]
    row = Columns([None] * widths["n"], [None] * widths["t"], [None] * widths["w"])
    for name, (slot, position) in layout["typed"].items():
        value = data.get(name)
        if value is None:
            continue
        at = position - 1
        if slot == "n":
            row.numbers[at] = values.number(value)
        elif slot == "t":
            row.times[at] = values.instant(value)
        else:
            row.words[at] = values.word(value)
    return row


def links(layout: StreamLayout, data: Mapping[str, object]) -> list[str | None]:
    """The link columns of a record: the key of a record elsewhere, or null."""
    row: list[str | None] = [None] * LINKS
    for name, column in layout.get("links", {}).items():
        row[column - 1] = values.key_text(data.get(name))
    return row


def code(index: int) -> str:
    """The letters of the search field at `index`, from 0: a, b, …, z, aa, ab, …"""
    letters = ""
    number = index + 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters


def _stream(
    stream: StreamDeclaration, foreign_keys: Iterable[str], *, previous: StreamLayout | None
) -> StreamLayout:
    layout: StreamLayout = {
        "typed": _places(previous) if previous else {},
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
        layout["search"].setdefault(name, code(len(layout["search"])))
    for name in foreign_keys:
        if len(layout["links"]) < LINKS:
            layout["links"].setdefault(name, len(layout["links"]) + 1)
    return layout


def _links(declaration: SourceDeclaration, name: str) -> list[str]:
    """The fields by which records of other streams expand to this one, in order."""
    return [
        relation.foreign_key
        for stream in declaration.streams.values()
        for relation in stream.relations.values()
        if relation.expandable and relation.cardinality == "has_many" and relation.stream == name
    ]


def _typed_fields(stream: StreamDeclaration) -> Iterator[Field]:
    """The fields that a filter, an aggregate, the order or the time range may ask for, of a kind
    that an array can hold."""
    for name, field in stream.fields.items():
        asked = field.range_operators or field.aggregations
        placed = name in {stream.cursor_field, stream.consent_time_field}
        if (asked or placed) and field.kind in SLOTS:
            yield field


def _source(stream: StreamDeclaration, name: str | None) -> list[str] | None:
    return None if name is None else [name, stream.fields[name].kind]


def _places(layout: StreamLayout) -> dict[str, tuple[Slot, int]]:
    return {name: (slot, position) for name, (slot, position) in layout["typed"].items()}


def _signature(layout: StreamLayout) -> tuple[object, ...]:
    return (
        _places(layout),
        layout["search"],
        layout.get("links", {}),
        layout["sort"],
        layout["time"],
    )
