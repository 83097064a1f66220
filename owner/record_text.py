"""Record values as text that shows everything that is in them and does nothing."""

import json
import unicodedata
from dataclasses import dataclass

from evidence.access.grant_text import field_label, humanised
from evidence.access.records import VisibleRecord, VisibleRecords

LONGEST = 20_000
_JOINERS = frozenset("\u200c\u200d")
"""Ordinary parts of several scripts and of emoji."""
_LAYOUT = frozenset("\n\t")


def plain(value: object) -> str:
    """A string as it is, anything else as JSON; characters that do not show are spelled out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(char: str) -> str:
    if char in _LAYOUT or char in _JOINERS or unicodedata.category(char)[0] != "C":
        return char
    return f"⟨U+{ord(char):04X}⟩"


def beginning(text: str, *, longest: int = LONGEST) -> tuple[str, int]:
    """The first ``longest`` characters, and how many are left out."""
    return text[:longest], max(0, len(text) - longest)


def line(value: object, *, longest: int = 120) -> str:
    """A value on one short line."""
    text, left_out = beginning(" ".join(plain(value).split()), longest=longest)
    return f"{text}…" if left_out else text


@dataclass(frozen=True, slots=True)
class Value:
    """One field of a record. ``left_out`` counts the characters that are not shown."""

    label: str
    name: str
    text: str
    left_out: int


def title_of(visible: VisibleRecords, record: VisibleRecord) -> str:
    title = record.data.get(visible.stream.title_field or "")
    return line(title if title not in (None, "") else record.record_key)


def values_of(
    visible: VisibleRecords, record: VisibleRecord, *, longest: int | None = LONGEST
) -> list[Value]:
    """Declared fields in their order, then what the record holds beyond them."""
    fields = visible.stream.fields
    names = [name for name in fields if name in record.data]
    names += sorted(name for name in record.data if name not in fields)
    values = []
    for name in names:
        label = field_label(fields[name]) if name in fields else humanised(name)
        text = plain(record.data[name])
        shown, left_out = (text, 0) if longest is None else beginning(text, longest=longest)
        values.append(Value(plain(label), plain(name), shown, left_out))
    return values
