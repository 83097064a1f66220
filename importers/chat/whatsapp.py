"""WhatsApp: a chat exported as text, with or without its media."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from itertools import islice
from typing import NamedTuple

from importers.chat import records
from importers.core import dates
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Repeated

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
                yield _parse_message(waiting, first)
            waiting, first, kept = [line], number, 0
        elif waiting and kept <= KEPT_CHARS:
            waiting.append(line)
            kept += len(line) + _LINE_CHARS
    if waiting:
        yield _parse_message(waiting, first)


def _parse_message(lines: list[str], number: int) -> Line:
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


SERVICE = "whatsapp"
FIRST_YEAR = 2009
LINE_BYTES = 1024 * 1024
_CHAT_NAME = re.compile(
    r"WhatsApp[ -_]?Chat(?:[ _]?-[ _]?|[ _](?:with|mit|con|avec|de|met|com|med|z)[ _])(.+)",
    re.IGNORECASE,
)
_MEDIA = re.compile(r"(?:IMG|VID|PTT|AUD|DOC|STK)-\d{8}-WA\d+|\d{8}-[A-Z]+-\d{4}|\d{8}-.+", re.I)
_FILE = re.compile(
    r"(?:<[^:<>]{2,20}: )?([^<>:/\n]{1,200}\.[A-Za-z0-9]{2,5})(?:>| \([^()]{3,40}\))"
)


def _claim(entries: Entries) -> list[Entry]:
    chats = _chats(entries)
    folders = {chat.path.parent for chat in chats}
    media = [
        entry
        for entry in entries
        if entry not in chats and entry.path.parent in folders and _MEDIA.match(entry.path.name)
    ]
    return chats + media


def _chats(entries: Entries) -> list[Entry]:
    return [entry for entry in entries if entry.suffix == ".txt" and _is_chat(entry)]


def _is_chat(entry: Entry) -> bool:
    """Two of the first lines begin as messages do; a diary hardly names authors so."""
    lines = entry.head.decode("utf-8", "replace").splitlines()[:40]
    found = sum(1 for line in lines if starts(line))
    return found >= 2 or (found == 1 and bool(_CHAT_NAME.match(entry.path.stem)))


def _lines(entry: Entry) -> Iterator[str]:
    with entry.open() as stream:
        while line := stream.readline(LINE_BYTES):
            yield line.decode("utf-8", "replace")


def _prepare(entries: Entries, options: Options) -> Options:
    """Each chat is in the order of time, which tells most orders of day and month apart."""
    years = range(FIRST_YEAR, options.horizon_year + 1)
    orders = {
        dates.order_of(
            (line.date.replace(" ", "") for line in messages(_lines(entry))),
            years=years,
            chosen=options.date_order,
            ascends=True,
        )
        for entry in _chats(entries)
    }
    return replace(options, date_order=orders.pop()) if len(orders) == 1 else options


def _read(entries: Entries, options: Options) -> Pieces:
    chats = _chats(entries)
    media = {entry.name: entry for entry in entries if entry not in chats}
    return each(chats, partial(_chat, media=media, options=options))


def _chat(entry: Entry, *, media: dict[str, Entry], options: Options) -> Pieces:
    name = _name(entry)
    conversation = records.Conversation(
        id=records.conversation_id(SERVICE, name), name=name, service=SERVICE
    )
    order = options.date_order or dates.order_of(
        (line.date.replace(" ", "") for line in islice(messages(_lines(entry)), 5_000)),
        years=range(FIRST_YEAR, options.horizon_year + 1),
        chosen=None,
        ascends=True,
    )
    yield Piece(entry.name, "", 0, lambda: Item([conversation.row()]))
    keys = Repeated("w_")
    for line in messages(_lines(entry)):
        at = moment(line, order=order, zone=options.zone)
        keys.begin((line.date, line.clock))
        key = keys.key(conversation.id, line.date, line.clock, line.author, line.text)
        make = partial(_message, line, conversation, key=key, at=at.isoformat() if at else None)
        attached = _attached(entry, line, media)
        yield Piece(entry.name, f"line {line.number:,}", line.size, partial(make, sent=attached))


def _name(entry: Entry) -> str:
    """Of the file, or of the archive where the file has none of its own."""
    for stem in (entry.path.stem, entry.export.removesuffix(".zip")):
        if found := _CHAT_NAME.match(stem):
            return found[1].strip()
    return entry.path.stem.strip("_") if entry.path.stem != "_chat" else entry.export or "Chat"


def _attached(entry: Entry, line: Line, media: dict[str, Entry]) -> records.Sent | None:
    found = _FILE.match(line.text.lstrip("\u200e"))
    if found is None:
        return None
    name = found[1].strip()
    return records.Sent(name=name, entry=media.get((entry.path.parent / name).as_posix()))


def _message(
    line: Line,
    conversation: records.Conversation,
    *,
    key: str,
    at: str | None,
    sent: records.Sent | None,
) -> Item:
    item = Item()
    if at is None:
        item.remark(Code.BAD_DATE, detail=line.date)
    if sent is not None and sent.entry is None:
        item.remark(Code.FILE_MISSING, detail=sent.name)
    records.message(
        item,
        conversation,
        key=key,
        text=line.text.strip(),
        sent_at=at,
        author=line.author,
        kind="message" if line.author else "system",
        sent=[sent] if sent else [],
    )
    return item


WHATSAPP = Kind(
    name="whatsapp",
    title="a WhatsApp chat",
    source="chat",
    label="WhatsApp",
    claim=_claim,
    prepare=_prepare,
    has_local_times=True,
    read=_read,
)
