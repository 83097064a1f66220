"""Lines of a WhatsApp text export, whose dates are written as the phone's language has it."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

from evidence.importing import dates

KEPT_CHARS = 8_000_000
"""Of a message, which is then cut to what a text may have; a line counts for more than it says."""
_LINE_CHARS = 50
_MARKS = "\u200e\u200f\u202a\u202c\ufeff"
_START = re.compile(
    r"[\[(]?(?P<date>\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4})\.?,?\s+(?:(?P<before>[^\d\s\]]{1,6})\s?)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"(?:\s?(?P<half>[ap]\.?\s?m\.?|AM|PM|오전|오후|午前|午後|上午|下午))?"
    r"(?:\]\s?|\s?[-\u2013]\s)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_AFTERNOON = ("p", "오후", "午後", "下午")
_MORNING = ("a", "오전", "午前", "上午")
_AUTHOR = re.compile(r"(?P<author>[^:]{1,80}?): (?P<text>.*)", re.DOTALL)


class Line(NamedTuple):
    """A message from its first line on. ``number`` and ``offset`` are those of that line."""

    number: int
    date: str
    clock: tuple[int, int, int] | None
    author: str | None
    text: str
    size: int


def starts(text: str) -> re.Match[str] | None:
    """Whether a message begins here."""
    return _START.match(text.lstrip(_MARKS))


def messages(lines: Iterable[str]) -> Iterator[Line]:
    """Lines without a date belong to the message before them; what precedes the first is none."""
    waiting: list[str] = []
    first = kept = 0
    for number, line in enumerate(lines, 1):
        if starts(line):
            if waiting:
                yield _message(waiting, first)
            waiting, first, kept = [line], number, 0
        elif waiting and kept <= KEPT_CHARS:
            waiting.append(line)
            kept += len(line) + _LINE_CHARS
    if waiting:
        yield _message(waiting, first)


def _message(lines: list[str], number: int) -> Line:
    whole = "".join(lines)
    found = _START.match(whole.lstrip(_MARKS))
    if found is None:  # the first line of it did match
        raise ValueError(number)
    rest = found["rest"].strip().lstrip(_MARKS)
    said = _AUTHOR.fullmatch(rest)
    author, text = (said["author"], said["text"]) if said else (None, rest)
    return Line(
        number, found["date"], _clock(found), author, text, len(whole.encode("utf-8", "replace"))
    )


def _clock(found: re.Match[str]) -> tuple[int, int, int] | None:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    half = (found["half"] or found["before"] or "").lower()
    if half.startswith(_AFTERNOON) and hour < 12:
        hour += 12
    elif half.startswith(_MORNING) and hour == 12:
        hour = 0
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def moment(line: Line, *, order: str, zone: tzinfo) -> datetime | None:
    """None for a day or a time that does not exist."""
    written = dates.triple(line.date.replace(" ", ""))
    day = dates.day(written, order) if written else None
    if day is None or line.clock is None:
        return None
    return datetime(day.year, day.month, day.day, *line.clock, tzinfo=zone)
