"""Texts of the owner's pages: times, counts, grant states, and records as inert text.

Invisible characters of a record are escaped.
"""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from mimetypes import MimeTypes

from django.template.defaultfilters import filesizeformat
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
    unit_of,
)
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import Field, StreamDeclaration

DAY = timedelta(days=1)
MAX_VALUE_LENGTH = 20_000
DATE_CHARS = 10
CHOICE_ROLES = frozenset({"category", "direction"})
CHOICE_NAMES = frozenset({"category", "folder", "kind", "state", "status", "type"})
"""Fields with a word of a list, such as ``inbox`` or ``direct_debit``."""
MAX_SIZE = 10**15
"""Larger numbers are shown as they are, without the words of their unit."""
SECONDS_BY_UNIT: Mapping[str, int] = {"seconds": 1, "minutes": 60}
HEART_RATE = "heart_rate"
"""Last words of a field name whose number counts beats per minute."""
MEDIA_TYPES = MimeTypes()
"""The types that Python knows, whatever the machine adds."""
_OFFICE = "application/vnd.openxmlformats-officedocument."
OFFICE_SUFFIXES: Mapping[str, str] = {
    f"{_OFFICE}presentationml.presentation": "PPTX",
    f"{_OFFICE}spreadsheetml.sheet": "XLSX",
    f"{_OFFICE}wordprocessingml.document": "DOCX",
    "text/calendar": "ICS",
}
# Joiners are ordinary parts of several scripts and of emoji.
_JOINERS = frozenset("\u200c\u200d")
_LAYOUT = frozenset("\n\t")


def escape_invisible(value: object) -> str:
    """Return a string, or another value as JSON, with invisible characters written as ⟨U+200B⟩."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    text = text.replace("\r\n", "\n")
    # Most texts have nothing to escape, and isprintable() looks at them much faster.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(map(_escape_char, text))


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
    """One field of a record. `left_out` counts the characters that are not shown.

    `stored` is the value as apps get it, empty where the text is the same.
    """

    label: str
    name: str
    text: str
    left_out: int
    stored: str
    is_id: bool


def value_text(field: Field | None, value: object) -> str:
    """Return a value as people write it: times, durations, sizes and lists in words.

    The word of a list begins with a capital; other texts stay as they are. None is empty.
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number_text(field, value)
        case list():
            return ", ".join(value_text(field, each) for each in value)
        case dict():
            texts = ((humanize(name), value_text(None, each)) for name, each in value.items())
            return "; ".join(f"{name}: {text}" for name, text in texts if text)
        case _:
            return str(value) if field is None else _string_text(field, str(value))


def _string_text(field: Field, value: str) -> str:
    if field.kind in ("time", "date"):
        return _time_text(value)
    is_choice = "enum" in field.schema or field.role in CHOICE_ROLES or field.name in CHOICE_NAMES
    is_word = value.islower() and value.isascii() and value.replace("_", "").isalpha()
    return humanize(value) if is_choice and is_word else value


def _number_text(field: Field | None, value: float) -> str:
    unit = "" if field is None or abs(value) > MAX_SIZE else unit_of(field)
    if unit == "bytes":
        return filesizeformat(value).replace("\N{NO-BREAK SPACE}", " ")
    if unit == "m":
        return f"{number_text(value)} m" if abs(value) < 1000 else f"{value / 1000:,.1f} km"
    if field is not None and field.name.endswith(HEART_RATE):
        return f"{number_text(value)} bpm"
    seconds = SECONDS_BY_UNIT.get(unit)
    return number_text(value) if seconds is None else duration_text(value * seconds)


def number_text(value: float) -> str:
    """Return ``12,469`` for 12469.0, with decimals only where there are some."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def file_type_text(media_type: str) -> str:
    """Return ``PDF`` for application/pdf, by the usual file name; other types as they are."""
    if media_type == "application/octet-stream":
        return "file"
    suffix = MEDIA_TYPES.guess_extension(media_type) or OFFICE_SUFFIXES.get(media_type, "")
    return suffix.removeprefix(".").upper() or media_type


def duration_text(seconds: float) -> str:
    """Return ``1 h 5 min``, ``32 min`` or ``45 s``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    parts = (f"{hours:,} h" if hours else "", f"{minutes} min" if minutes else "")
    return " ".join(filter(None, parts))


def _time_text(value: object) -> str:
    moment = parse_time(value)
    if moment is None or len(str(value)) <= DATE_CHARS:
        return str(value) if moment is None else format_day(moment)
    return format_time(moment)


def parse_time(value: object) -> datetime | None:
    """Return a date or an instant of a record as UTC, or None."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


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
        label = field_label(fields[name], fields) if name in fields else humanize(name)
        value = record.data[name]
        words = escape_invisible(value_text(fields.get(name), value))
        stored = escape_invisible(value) if value else json.dumps(value)
        length = max(len(words), len(stored)) if max_length is None else max_length
        text, left_out = truncate(words, max_length=length)
        shown, more = truncate("" if stored == words else stored, max_length=length)
        values.append(FieldValue(
            label=escape_invisible(label), name=escape_invisible(name), text=text,
            left_out=left_out, stored=f"{shown}…" if more else shown,
            is_id=name in visible.stream.primary_key or name.endswith("_id"),
        ))  # fmt: skip
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


def start_of_day(moment: datetime) -> datetime:
    """Return the midnight before a moment."""
    return midnight(timezone.localtime(moment).date())


def midnight(day: date) -> datetime:
    """Return the start of a day in the current time zone."""
    return datetime.combine(day, time.min, timezone.get_current_timezone())


def last_days(now: datetime, days: int) -> tuple[datetime, datetime]:
    """Return the start of the earliest of the last days, today included, and the end of today."""
    end = start_of_day(now) + DAY
    return end - days * DAY, end


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


def pluralize(count: int, noun: str) -> str:
    """Return ``1 record`` or ``2,400 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_of(records: int, stream: str) -> str:
    """Return ``41 messages``, ``1 message`` or ``1 record of people``."""
    name = escape_invisible(humanize(stream)).lower()
    if records != 1:
        return f"{records:,} {name}"
    if name.endswith("ies"):
        return f"1 {name.removesuffix('ies')}y"
    is_plural = name.endswith("s") and not name.endswith("ss")
    return f"1 {name.removesuffix('s')}" if is_plural else f"1 record of {name}"
