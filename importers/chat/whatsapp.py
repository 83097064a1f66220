"""Import WhatsApp chats exported as text, with or without media, in the dates and notices of any language."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import NamedTuple

from importers.chat import records
from importers.core import dates
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, FileSample, Importer, Options
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
)
from importers.core.text import detect_language

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
_LIKE_START = re.compile(
    r"[^\n:]{0,20}?(?:\d{1,2}\D{1,12}\d{4}|\d{1,4}\D{1,3}\d{1,2}\D{1,3}\d{1,4})[^\d\n:]{1,12}"
    r"\d{1,2}[:.]\d{2}[^\n]{0,12}?(?:\]| [-\u2013] )[^\n:]{1,60}: "
)
"""A line with a date, a time and a name, which may start a message in a form that is unknown."""
_PM = ("p", "오후", "午後", "下午", "晚上", "م", "ب", "μ", "अपराह्न", "ös", "ch", "ip", "em", "e.",
       "du", "nm", "md", "odp")  # fmt: skip
_AM = ("pg", "pd", "vm", "dop", "f.", "a", "오전", "午前", "上午", "凌晨", "早上", "ص", "ق", "π",
       "पूर्वाह्न", "öö", "sa", "fm", "de")  # fmt: skip
_YEAR_FIRST = ("오", "午", "上", "下", "凌", "早", "晚", "中")
"""Korean, Japanese and Chinese dates begin with the year, even with two digits."""
_YEAR_ERAS = {543: 2400}
"""Years that Thai chats add, and the first year that has them added."""
# A name may have an emoticon, such as ":)" or " :3", or a verse, such as 14:13.
_AUTHOR = re.compile(
    r"(?P<author>(?:[^:]|:(?=[()])|(?<=\s):(?=[^\s()])|(?<=\d):(?=\d)){1,80}?):[ \t](?P<text>.*)",
    re.DOTALL,
)

TimeOfDay = tuple[int, int, int]
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
SERVICE = "whatsapp"
FIRST_YEAR = 2009
LINE_MAX_BYTES = 1024 * 1024
_OMITTED = re.compile(
    rf"\A{MARKS}<(?=[^<>]*(?:medi|mídia|médi|medy|archiv|arquiv|fichi|fichei|file|bestand|omit|omis|ausge"
    r"|медиа|файл|媒|图|圖|미디어|メディア|وسائط|رسانه|מדיה|मीडिया|μέσ|สื่อ))[^<>\n:]{5,60}>\s*(?:\n|$)"
    r"|(?:\A|\s)[\u200e\u200f](?:[^\n<>:\u200e]{2,30}\b(?:omitted|weggelassen"
    r"|ausgelassen|omitid[oa]s?|absente?s?|omiss?es?|omess[oaie]|ocultad?[oa]s?|weggelaten|utelämnad|pominięt[oay]"
    r"|utelatt|udeladt|пропущен[оаы]?)|[^\n<>:\u200e]{0,20}(?:已省略|已略過|省略|생략됨?|생략된 \S+))\s*\Z",
    re.IGNORECASE,
)
"""What stands for a file that the export was made without, in the language of the phone.

Android writes it in brackets before the caption, an iPhone behind the caption and an invisible mark.
"""
_CHAT_NAME = re.compile(
    r"WhatsApp[ -_]?Chat(?:[ _]?-[ _]?|[ _](?:with|mit|con|avec|de|met|com|med|z)[ _])(.+)",
    re.IGNORECASE,
)
_COPY_NUMBER = re.compile(r"\s*\(\d{1,2}\)$")
"""Browsers and phones add this to the name of a second download."""
_MEDIA_NAME = re.compile(
    r"(?:IMG|VID|PTT|AUD|DOC|STK)-\d{8}-WA\d+|\d{8}-[A-Z]+-\d{4}|\d{8}-.+", re.I
)
_FILE_NAME = re.compile(
    rf"\A{MARKS}([^<>:/\n]{{1,200}}\.[A-Za-z0-9]{{2,5}}) \([^()]{{3,40}}\)"
    r"|<[^:<>\n]{2,20}: ([^<>:/\n]{1,200}\.[A-Za-z0-9]{2,5})>\s*\Z"
)
"""A file at the start of a message (Android), or at its end after a caption (iOS)."""


class ChatMessage(NamedTuple):
    """A message with the number of its first line. ``date`` is as written: keys depend on it.

    ``doubt`` is a line of it that may be another message.
    """

    line: int
    date: str
    has_year_first: bool
    time: TimeOfDay | None
    author: str | None
    text: str
    size: int
    doubt: str

    @property
    def date_form(self) -> str:
        """The separators of the date, and whether its year has four digits."""
        return re.sub(r"\d{1,2}(?!\d)", "9", re.sub(r"\d{4}", "y", self.date))


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
    is_of_iphone = content.lstrip(_INVISIBLE_MARKS).startswith("[")
    if authored is None and (is_of_iphone or f"{text} " in start["rest"]):  # one without text
        authored = _AUTHOR.fullmatch(f"{text} ")
    author, text = (authored["author"], authored["text"]) if authored else (None, text)
    size = len(content.encode("utf-8", "replace"))
    half = start["before"] or start["half"] or ""
    return ChatMessage(
        first_line,
        start["date"],
        half.startswith(_YEAR_FIRST),
        _time_of_day(start),
        author,
        text,
        size,
        next(filter(_LIKE_START.match, lines[1:]), "").strip(),
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


def author_and_text(author: str | None, text: str) -> tuple[str | None, str]:
    """Return who wrote a message and what, without the notice that it was edited.

    A colon in a quotation, such as a new name of the group, ends no author.
    """
    if author is None:
        return None, text
    if _OPEN_QUOTE.search(_QUOTED.sub("", author)):
        return None, f"{author}: {text}"
    return author.rstrip(), _EDITED.sub("", text)


def _claim(files: ExportFiles) -> list[ExportFile]:
    chats = _chats(files)
    folders = {chat.path.parent for chat in chats}
    beside = [file for file in files if file not in chats and file.path.parent in folders]
    media = [file for file in beside if _MEDIA_NAME.match(file.path.name)]
    others = {file.name: file for file in beside if file not in media}
    if others:
        named = dict.fromkeys(name for chat in chats for name in _named_files(chat))
        media += [others[name] for name in named if name in others]
    return chats + media


def _named_files(chat: ExportFile) -> Iterator[str]:
    """Yield the names within the export of the files that a chat names."""
    for message in _messages(chat):
        if match := _FILE_NAME.search(message.text):
            yield _beside(chat, match)


def _beside(chat: ExportFile, match: re.Match[str]) -> str:
    return (chat.path.parent / (match[1] or match[2]).strip()).as_posix()


def _chats(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".txt" and _is_chat(file)]


def _is_chat(file: ExportFile) -> bool:
    """Return whether two of the first lines start a message, or one in a file named as a chat."""
    lines = file.head.decode("utf-8", "replace").splitlines()[:40]
    count = sum(1 for line in lines if match_message_start(line))
    return count >= 2 or (count == 1 and bool(_CHAT_NAME.match(file.path.stem)))


def _messages(file: ExportFile) -> Iterator[ChatMessage]:
    with file.open() as stream:
        lines = iter(lambda: stream.readline(LINE_MAX_BYTES), b"")
        yield from iter_messages(line.decode("utf-8", "replace") for line in lines)


def _prepare(files: ExportFiles, options: Options) -> Options:
    orders = {
        order for chat in _chats(files) for order in _detect_date_orders(chat, options).values()
    }
    return replace(options, date_order=orders.pop()) if len(orders) == 1 else options


def _sample(files: ExportFiles, options: Options) -> list[FileSample]:
    """Return how the dates of the first chat can be read, and its language."""
    return [
        FileSample(
            file=chat.name,
            readings={"date_order": dates.readings_by_order(map(plain_date, _messages(chat)))},
            language=detect_language(message.text for message in _messages(chat)),
        )
        for chat in _chats(files)[:1]
    ]


def _detect_date_orders(chat: ExportFile, options: Options) -> dict[str, str]:
    """Return the order of each form of dates: a chat of two phones has two."""
    return {
        form: dates.detect_date_order(
            (plain_date(message) for message in _messages(chat) if message.date_form == form),
            years=range(FIRST_YEAR, options.horizon_year + 1),
            chosen=options.date_order,
            ascends=True,
        )
        for form in {message.date_form for message in _messages(chat)}
    }


def _read(files: ExportFiles, options: Options) -> ExportItems:
    chats = _chats(files)
    media = {file.name: file for file in files if file not in chats}
    return iter_items(chats, partial(_read_chat, media=media, options=options))


def _read_chat(file: ExportFile, *, media: dict[str, ExportFile], options: Options) -> ExportItems:
    name = _chat_name(file)
    conversation = records.Conversation(
        id=records.conversation_id(SERVICE, name), name=name, service=SERVICE
    )
    # A chosen order is for dates that leave it open: of two chats, each can have its own.
    date_orders = _detect_date_orders(file, options)
    yield ExportItem(file.name, "", 0, lambda: ParsedItem([conversation.record()]))
    keys, clock = ContentKeys("w_"), _Clock()
    for message in _messages(file):
        order = date_orders[message.date_form]
        sent_at = parse_time(message, date_order=order, zone=options.zone)
        sent_at = clock.next(sent_at)
        author, text = author_and_text(message.author, message.text)
        shown = author and author.rstrip(_INVISIBLE_MARKS)
        message = message._replace(author=shown, text=text)
        key = keys.key(conversation.id, message.date, message.time, author, text)
        parse = partial(
            _message,
            message,
            conversation,
            key=key,
            sent_at=sent_at.isoformat() if sent_at else None,
            file=_message_file(file, message, media),
            is_cut=clock.is_first,
        )
        yield ExportItem(file.name, f"line {message.line:,}", message.size, parse)


@dataclass(slots=True)
class _Clock:
    """Adds a microsecond to each further message of a time, so that messages keep their order.

    ``is_first``: no time was different from the first one yet. A later export may begin within it.
    """

    time: datetime | None = None
    position: int = 0
    is_first: bool = True

    def next(self, time: datetime | None) -> datetime | None:
        if time is None:
            return None
        self.is_first = self.is_first and self.time in (None, time)
        self.position = self.position + 1 if time == self.time else 0
        self.time = time
        return time + timedelta(microseconds=self.position)


def _chat_name(file: ExportFile) -> str:
    """Return the name of the chat from the file name, or from the archive name for _chat.txt."""
    for stem in (file.path.stem, file.export.removesuffix(".zip")):
        if match := _CHAT_NAME.match(stem):
            return _COPY_NUMBER.sub("", match[1].strip())
    return file.path.stem.strip("_") if file.path.stem != "_chat" else file.export or "Chat"


def _message_file(
    chat: ExportFile, message: ChatMessage, media: dict[str, ExportFile]
) -> records.MessageFile | None:
    if _OMITTED.search(message.text):
        return records.MessageFile(name="")
    match = _FILE_NAME.search(message.text)
    if match is None:
        return None
    content = media.get(_beside(chat, match))
    return records.MessageFile(name=(match[1] or match[2]).strip(), content=content)


def _message(
    message: ChatMessage,
    conversation: records.Conversation,
    *,
    key: str,
    sent_at: str | None,
    file: records.MessageFile | None,
    is_cut: bool,
) -> ParsedItem:
    """Return a message. Of a minute whose start may be cut off, it keeps a place that is stored."""
    item = ParsedItem()
    item.require_date(sent_at, message.date)
    if file is not None and file.content is None:
        item.add_issue(ReceiptCode.FILE_MISSING, detail=file.name)
    if message.doubt:
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"a message? {message.doubt}"[:80])
    is_omitted = file is not None and not file.name
    records.add_message(
        item,
        conversation,
        key=key,
        text=_OMITTED.sub("", message.text, count=1).strip()
        if is_omitted
        else message.text.strip(),
        sent_at=sent_at,
        author=message.author,
        kind="message" if message.author else "system",
        files=[file] if file else [],
    )
    if is_cut:
        item.records = [replace(record, unknown=("sent_at",)) for record in item.records]
    return item


WHATSAPP = Importer(claim=_claim, prepare=_prepare, read=_read, sample=_sample)
