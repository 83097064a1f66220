"""A record on a page of the owner: its title and its values, as text that does nothing."""

from dataclasses import dataclass

from evidence.access.describing import field_label, humanised
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.consent.plain_text import LONGEST, beginning, line, plain


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
