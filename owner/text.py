"""Texts of the owner's pages: times, counts, grant states, and records as inert text.

Invisible characters of a record are escaped.
"""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from evidence.access.grant_states import GrantState
from evidence.access.grant_text import (
    StreamDescription,
    describe_stream,
    field_label,
    format_day,
    humanize,
)
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import StreamDeclaration

MAX_VALUE_LENGTH = 20_000
# Joiners are ordinary parts of several scripts and of emoji.
_JOINERS = frozenset("\u200c\u200d")
_LAYOUT = frozenset("\n\t")


def escape_invisible(value: object) -> str:
    """Return a string, or another value as JSON, with invisible characters written as ⟨U+200B⟩."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(map(_escape_char, text.replace("\r\n", "\n")))


def _escape_char(char: str) -> str:
    if char in _LAYOUT or char in _JOINERS or unicodedata.category(char)[0] != "C":
        return char
    return f"⟨U+{ord(char):04X}⟩"


def truncate(text: str, *, max_length: int = MAX_VALUE_LENGTH) -> tuple[str, int]:
    """Return the first `max_length` characters and the number of characters left out."""
    return text[:max_length], max(0, len(text) - max_length)


def one_line(value: object, *, max_length: int = 120) -> str:
    """Return a value on one line, ending in an ellipsis if it is cut."""
    text, left_out = truncate(" ".join(escape_invisible(value).split()), max_length=max_length)
    return f"{text}…" if left_out else text


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One field of a record. `left_out` counts the characters that are not shown."""

    label: str
    name: str
    text: str
    left_out: int


def record_title(visible: VisibleRecords, record: VisibleRecord) -> str:
    """Return the title field on one line, or the record key if it is empty."""
    title = record.data.get(visible.stream.title_field or "")
    return one_line(title if title not in (None, "") else record.record_key)


def record_values(
    visible: VisibleRecords, record: VisibleRecord, *, max_length: int | None = MAX_VALUE_LENGTH
) -> list[FieldValue]:
    """Return the declared fields in their order, then undeclared ones. None means no cut."""
    fields = visible.stream.fields
    names = [name for name in fields if name in record.data]
    names += sorted(name for name in record.data if name not in fields)
    values = []
    for name in names:
        label = field_label(fields[name]) if name in fields else humanize(name)
        text, left_out = escape_invisible(record.data[name]), 0
        if max_length is not None:
            text, left_out = truncate(text, max_length=max_length)
        values.append(FieldValue(escape_invisible(label), escape_invisible(name), text, left_out))
    return values


def format_time(moment: datetime | None, *, never: str = "never") -> str:
    """Return ``21 November 2026, 22:55`` in the owner's time zone, or `never` for None."""
    if moment is None:
        return never
    local = to_local_time(moment)
    return f"{format_day(local)}, {local:%H:%M}"


def to_local_time(moment: datetime) -> datetime:
    """Return a moment in the owner's time zone; without a shift at the ends of the calendar."""
    try:
        return timezone.localtime(moment)
    except OverflowError:
        return moment.replace(tzinfo=timezone.get_current_timezone())


def state_badge(state: GrantState) -> SafeString:
    """Return the state's label in its color."""
    return format_html('<span class="state state-{}">{}</span>', state.value, state.label)


def describe_terms(
    terms: StreamTerms, *, stream: StreamDeclaration | None, labels: Mapping[str, str]
) -> StreamDescription:
    """Describe the terms of a stream, with invisible characters in record keys escaped."""
    words = describe_stream(terms, stream=stream, labels=labels)
    if words.record_keys is None:
        return words
    return replace(words, record_keys=tuple(map(escape_invisible, words.record_keys)))


def with_code(text: str, *commands: str) -> SafeString:
    """Replace each ``{}`` in `text` with a command in a code element."""
    return format_html(text, *(format_html("<code>{}</code>", command) for command in commands))


def pluralize(count: int, noun: str) -> str:
    """Return ``1 record`` or ``2,400 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
