"""The messages of a WhatsApp chat exported as text, in the dates, times and notices of any language."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

from importers.core import dates

MESSAGE_MAX_CHARS = 8_000_000
"""Read for one message. add_message truncates the text further."""
_LINE_OVERHEAD = 50
_INVISIBLE_MARKS = "\u200e\u200f\u202a\u202b\u202c\ufeff"
MARKS = f"[{_INVISIBLE_MARKS}]*"
_HALVES = (
    r"[ap]\.?\s?m\.?|오전|오후|午前|午後|上午|下午|凌晨|早上|中午|晚上|ص|م|صباحًا|مساءً"
    r"|ق\.?\s?ظ\.?|ب\.?\s?ظ\.?|قبل[\s\u200c]?از[\s\u200c]?ظهر|بعد[\s\u200c]?از[\s\u200c]?ظهر|قبل دوپہر|بعد دوپہر"
    r"|[πμ]\.?\s?μ\.?|पूर्वाह्न|अपराह्न|ÖÖ|ÖS|SA|CH|[ai]p\.?|[ef]m|d[eu]\.|ч\.?|น\.|Uhr"
    r"|PTG|PG|[nv]m\.?|[MP]D|dop\.|odp\.|pop\.|[fe]\.\s?h\."
)
_TIME_FIRST = re.compile(
    rf"\A([\[(]?{MARKS})(\d{{1,2}}:\d{{2}}(?::\d{{2}})?),? (\d{{1,2}}/\d{{1,2}}/\d{{2,4}})(?=\]| [-\u2013] )"
)
"""Vietnamese chats have the time before the date."""
_MESSAGE_START = re.compile(
    rf"[\[(]?{MARKS}(?P<date>\d{{1,4}}{MARKS}(?:[./-]|년|年)\s?{MARKS}\d{{1,2}}{MARKS}(?:[./-]|월|月)"
    rf"\s?{MARKS}\d{{1,4}})(?:일|日)?\.?(?:\s?(?:г\.?|BE|พ\.ศ\.))?{MARKS}(?P<comma>[,،])?{MARKS}\s+{MARKS}"  # noqa: RUF001
    rf"(?:(?P<before>[^\d\s\]]{{1,12}})\s?)?"
    rf"(?P<hour>\d{{1,2}})(?:[:.]|\sh\s)(?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?"
    rf"(?:{MARKS}\s?{MARKS}(?P<half>{_HALVES}))?{MARKS}"
    rf"(?:\]\s?|\s?{MARKS}[-\u2013]{MARKS}\s|(?P<mark>[,:])\s)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_PM = ("p", "오후", "午後", "下午", "晚上", "م", "ب", "μ", "अपराह्न", "ös", "ch", "ip", "em", "e.",
       "du", "nm", "md", "odp")  # fmt: skip
_AM = ("pg", "pd", "vm", "dop", "f.", "a", "오전", "午前", "上午", "凌晨", "早上", "ص", "ق", "π",
       "पूर्वाह्न", "öö", "sa", "fm", "de")  # fmt: skip
_YEAR_FIRST = ("오", "午", "上", "下", "凌", "早", "晚", "中")
"""Korean, Japanese and Chinese dates begin with the year, even with two digits."""
_YEAR_ERAS = {543: 2400}
"""Years that Thai chats add, and the first year that has them added."""
_AUTHOR = re.compile(r"(?P<author>[^:]{1,80}?): (?P<text>.*)", re.DOTALL)

TimeOfDay = tuple[int, int, int]


class ChatMessage(NamedTuple):
    """A message with the number of its first line. ``date`` is as written: keys depend on it."""

    line: int
    date: str
    has_year_first: bool
    time: TimeOfDay | None
    author: str | None
    text: str
    size: int


def match_message_start(text: str) -> re.Match[str] | None:
    match = _MESSAGE_START.match(
        _TIME_FIRST.sub(r"\1\3, \2", text.lstrip(_INVISIBLE_MARKS), count=1)
    )
    # Without a bracket or dash after the time, a line such as 2026-01-13 08:30:01: is one of a log.
    is_log = match is not None and match["mark"] and not (match["comma"] or match["before"])
    return None if is_log else match


def iter_messages(lines: Iterable[str]) -> Iterator[ChatMessage]:
    """Yield messages. A line without a date continues the message before it."""
    message_lines: list[str] = []
    first_line = chars = 0
    for number, line in enumerate(lines, 1):
        if match_message_start(line):
            if message_lines:
                yield _parse_message(message_lines, first_line)
            message_lines, first_line, chars = [line], number, 0
        elif message_lines and chars <= MESSAGE_MAX_CHARS:
            message_lines.append(line)
            chars += len(line) + _LINE_OVERHEAD
    if message_lines:
        yield _parse_message(message_lines, first_line)


def _parse_message(lines: list[str], first_line: int) -> ChatMessage:
    content = "".join(lines)
    start = match_message_start(content)
    if start is None:
        raise ValueError(f"line {first_line} does not start a message")
    text = start["rest"].strip().lstrip(_INVISIBLE_MARKS)
    authored = _AUTHOR.fullmatch(text)
    if authored is None and f"{text} " in start["rest"]:  # a message without text
        authored = _AUTHOR.fullmatch(f"{text} ")
    author, text = (authored["author"], authored["text"]) if authored else (None, text)
    size = len(content.encode("utf-8", "replace"))
    half = start["before"] or start["half"] or ""
    has_year_first = half.startswith(_YEAR_FIRST)
    return ChatMessage(
        first_line, start["date"], has_year_first, _time_of_day(start), author, text, size
    )


def plain_date(message: ChatMessage) -> str:
    """Return the date with ASCII digits and separators, and with a year of the common era."""
    numbers = re.findall(r"\d+", message.date)
    separator = next((mark for mark in "./-" if mark in message.date), ".")
    if message.has_year_first and len(numbers[0]) <= 2:
        numbers[0] = f"20{int(numbers[0]):02}"
    for position, number in enumerate(numbers):
        for difference, first_year in _YEAR_ERAS.items():
            if int(number) >= first_year:
                numbers[position] = str(int(number) - difference)
    return separator.join(str(int(number)).zfill(len(number)) for number in numbers)


def _time_of_day(start: re.Match[str]) -> TimeOfDay | None:
    hour, minute, second = int(start["hour"]), int(start["minute"]), int(start["second"] or 0)
    half = (start["half"] or start["before"] or "").lower()
    if half.startswith(_AM):
        hour = 0 if hour == 12 else hour
    elif half.startswith(_PM) and hour < 12:
        hour += 12
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def parse_time(message: ChatMessage, *, date_order: str, zone: tzinfo) -> datetime | None:
    """Return when a message was sent, or None for an impossible date or time."""
    written = dates.parse_written_date(plain_date(message))
    day = dates.to_date(written, date_order) if written else None
    if day is None or message.time is None:
        return None
    return datetime(day.year, day.month, day.day, *message.time, tzinfo=zone)


_QUOTES = '“”„«»「」『』"״'
_QUOTED = re.compile(f"[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]")
_OPEN_QUOTE = re.compile(f"[{_QUOTES}]|\\s['‘][^'’]*$")  # noqa: RUF001
_EDITED = re.compile(
    r"\s*\u200e?<(?=[^<>]*(?:\s|[^\x00-\x7f]))[^<>\n:]{0,40}(?:edit|bearbeitet|modif|bewerkt|redi[gq]|muok"
    r"|uprav|szerkeszt|επεξεργ|изме|редак|düzenle|تعديل|ویرایش|נער[כך]|एडिट|संपादित|編集|编辑|編輯|수정|편집"
    r"|chỉnh sửa|แก้ไข|uređen|измењ)[^<>\n:]{0,40}>\s*\Z",
    re.IGNORECASE,
)
"""What stands behind the text of an edited message."""


def author_and_text(author: str | None, text: str) -> tuple[str | None, str]:
    """Return who wrote a message and what, without the notice that it was edited.

    A colon in a quotation, such as a new name of the group, ends no author.
    """
    if author is None:
        return None, text
    if _OPEN_QUOTE.search(_QUOTED.sub("", author)):
        return None, f"{author}: {text}"
    return author.rstrip(), _EDITED.sub("", text)
