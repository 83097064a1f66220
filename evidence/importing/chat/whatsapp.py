"""WhatsApp: a chat exported as text, with or without its media."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from evidence.importing import dates
from evidence.importing.chat import rows
from evidence.importing.chat.whatsapp_lines import Line, messages, moment, starts
from evidence.importing.codes import Code
from evidence.importing.exports import Entry, each
from evidence.importing.items import Item, Piece, Pieces
from evidence.importing.kinds import Entries, Kind
from evidence.importing.options import Options
from evidence.importing.repeated import Repeated

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
    conversation = rows.Conversation(
        id=rows.conversation_id(SERVICE, name), name=name, service=SERVICE
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


def _attached(entry: Entry, line: Line, media: dict[str, Entry]) -> rows.Sent | None:
    found = _FILE.match(line.text.lstrip("\u200e"))
    if found is None:
        return None
    name = found[1].strip()
    return rows.Sent(name=name, entry=media.get((entry.path.parent / name).as_posix()))


def _message(
    line: Line, conversation: rows.Conversation, *, key: str, at: str | None, sent: rows.Sent | None
) -> Item:
    item = Item()
    if at is None:
        item.remark(Code.BAD_DATE, detail=line.date)
    if sent is not None and sent.entry is None:
        item.remark(Code.FILE_MISSING, detail=sent.name)
    rows.message(
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
