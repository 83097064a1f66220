"""Build the records of a message from MAPI properties, as files of Outlook have them (MS-OXPROPS)."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from itertools import pairwise

import compressed_rtf

from importers.core.file_texts import TimeLimitExceeded, rtf_text, time_limit
from importers.core.results import Issue, ParsedItem, ReceiptCode
from importers.core.text import decode, html_to_text, one_line, replace_unstorable, text_prefix
from importers.mail.bodies import Body, DisplayedText, select_alternative
from importers.mail.headers import HeaderFields
from importers.mail.mime import MimePart, file_part
from importers.mail.records import MailboxMetadata, add_message

KEY_PREFIX = "o_"
FILES_MAX_BYTES = 96 * 1024 * 1024
"""Of one message; larger files of a message have a receipt."""
MAX_FILES = 1_000
MAX_DEPTH = 10
MAX_CATEGORIES = 100
_RTF_SECONDS = 5.0

_SUBJECT, _CLASS, _TRANSPORT_HEADERS = 0x0037, 0x001A, 0x007D
_SENT_AT, _DELIVERED_AT, _CREATED_AT, _FLAGS = 0x0039, 0x0E06, 0x3007, 0x0E07
_MESSAGE_ID, _REPLY_TO_ID, _REFERENCES = 0x1035, 0x1042, 0x1039
_PLAIN, _RTF, _HTML = 0x1000, 0x1009, 0x1013
_MESSAGE_CODE_PAGE, _INTERNET_CODE_PAGE = 0x3FFD, 0x3FDE
_AUTHOR, _SENDER = (0x0042, 0x5D02, 0x0065), (0x0C1A, 0x5D01, 0x0C1F)
"""Name, SMTP address, and address of any kind; a sender may write for somebody else."""
_RECIPIENT, _RECIPIENT_KIND = (0x3001, 0x39FE, 0x3003), 0x0C15
FILE_NAMES, _FILE_TYPE, FILE_CONTENT, FILE_METHOD = (
    (0x3707, 0x3704, 0x3001),
    0x370E,
    0x3701,
    0x3705,
)
_FILE_ID, _FILE_FLAGS, _IS_READ, _IS_DISPLAYED = 0x3712, 0x3714, 1, 4
_BY_REFERENCE = (2, 3, 4, 7)
_FLAG_STATUS, _IS_FLAGGED = 0x1090, 2
USED_PROPERTIES = frozenset((
    _SUBJECT, _CLASS, _TRANSPORT_HEADERS, _SENT_AT, _DELIVERED_AT, _CREATED_AT, _FLAGS, _MESSAGE_ID,
    _REPLY_TO_ID, _REFERENCES, _PLAIN, _RTF, _HTML, _MESSAGE_CODE_PAGE, _INTERNET_CODE_PAGE, *_AUTHOR,
    *_SENDER, *_RECIPIENT, _RECIPIENT_KIND, *FILE_NAMES, _FILE_TYPE, FILE_METHOD, _FILE_ID, _FILE_FLAGS,
    _FLAG_STATUS,
))  # fmt: skip
"""Those that are read here, but the content of a file."""
_UNICODE, _STRING8, _MULTIPLE = 0x1F, 0x1E, 0x1000
_FIRST_NAMED, _PUBLIC_STRING, _CATEGORIES = 0x8000, 2 << 1 | 1, "keywords"
_NAMED = struct.Struct("<IHH")
"""Where the name is, the set of the name, and the number of the property."""
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_CODECS = {65001: "utf-8", 20127: "ascii", 20866: "koi8-r", 21866: "koi8-u", 50220: "iso-2022-jp",
           51932: "euc_jp", 51949: "euc_kr", 54936: "gb18030"}  # fmt: skip
_MAIL_CLASSES = ("ipm.note", "ipm.post", "ipm.schedule.meeting", "ipm.recall", "report.")
_SETTINGS = ("ipm.configuration", "ipm.microsoft.")


def decode_text(kind: int, content: bytes, charset: str | None) -> str:
    """Return a text of this type, or one of several; empty for another type."""
    kind &= ~_MULTIPLE
    if kind == _UNICODE:
        text = content.decode("utf-16-le", "replace")
    else:
        text = decode(content, charset) if kind == _STRING8 else ""
    return replace_unstorable(text.rstrip("\0"))


@dataclass(frozen=True, slots=True)
class MapiProperties:
    """Types and bytes of properties by id. Texts without a charset of their own are in ``charset``."""

    values: Mapping[int, tuple[int, bytes]]
    charset: str | None = None

    def text(self, *ids: int) -> str:
        """Return the first of these texts that is not empty."""
        for each in ids:
            if text := decode_text(*self.values.get(each, (0, b"")), self.charset):
                return text
        return ""

    def texts(self, each: int) -> list[str]:
        """Return the texts of a property that has several: their number, starts and bytes."""
        kind, content = self.values.get(each, (0, b""))
        count = int.from_bytes(content[:4], "little")
        if not kind & _MULTIPLE or len(content) < 4 + 4 * count:
            return []
        starts = struct.unpack_from(f"<{count}I", content, 4)
        parts = [content[start:end] for start, end in pairwise([*starts, len(content)])]
        return [decode_text(kind, part, self.charset) for part in parts[:MAX_CATEGORIES]]

    def content(self, each: int) -> bytes:
        return self.values.get(each, (0, b""))[1]

    def number(self, each: int) -> int:
        return int.from_bytes(self.content(each)[:4], "little")

    def time(self, *ids: int) -> datetime | None:
        """Return the first of these times, which count tenths of microseconds since 1601."""
        for each in ids:
            ticks = int.from_bytes(self.content(each)[:8], "little")
            if 0 < ticks < 1 << 62:
                try:
                    return _EPOCH + timedelta(microseconds=ticks // 10)
                except OverflowError:
                    continue
        return None

    def charset_of_texts(self) -> str | None:
        page = self.number(_MESSAGE_CODE_PAGE) or self.number(_INTERNET_CODE_PAGE)
        if 28591 <= page <= 28606:
            return f"iso8859-{page - 28590}"
        return _CODECS.get(page, f"cp{page}") if page else None


@dataclass(frozen=True, slots=True)
class MapiFile:
    """An attached file, or an attached message."""

    properties: MapiProperties
    message: "MapiMessage | None" = None


@dataclass(frozen=True, slots=True)
class MapiMessage:
    """A message. ``issues`` are those of parts that cannot be read; ``categories`` the owner's."""

    properties: MapiProperties
    recipients: Sequence[MapiProperties] = ()
    files: Sequence[MapiFile] = ()
    issues: Sequence[Issue] = ()
    categories: Sequence[str] = ()


def find_categories_id(entries: bytes, names: bytes) -> int:
    """Return the id of the property with the categories in a file, by its map of names, or 0."""
    whole = len(entries) - len(entries) % _NAMED.size
    for at, kind, number in _NAMED.iter_unpack(entries[:whole]):
        size = int.from_bytes(names[at : at + 4], "little")
        name = names[at + 4 : at + 4 + size].decode("utf-16-le", "replace")
        if kind == _PUBLIC_STRING and name.lower() == _CATEGORIES:
            return _FIRST_NAMED + int(number)
    return 0


def parse_outlook_message(message: MapiMessage, folder: str | None) -> ParsedItem:
    """Return the records of a message; contacts, appointments and other items have a receipt."""
    item = ParsedItem(issues=list(message.issues))
    kind = message.properties.text(_CLASS).lower()
    if kind and not kind.startswith(_MAIL_CLASSES):
        if kind.startswith("ipm.") and not kind.startswith(_SETTINGS):
            item.add_issue(ReceiptCode.NOT_SUPPORTED, detail=one_line(kind, max_chars=80))
        return item
    headers, body = _headers(message), _body(message.properties)
    key = _key(headers, body)
    body.files += _file_parts(message, item, depth=0)
    flags = "F" * (message.properties.number(_FLAG_STATUS) == _IS_FLAGGED)
    flags += "S" * (message.properties.number(_FLAGS) & _IS_READ)
    labels = tuple(label for each in message.categories if (label := one_line(each, max_chars=200)))
    metadata = MailboxMetadata(folder, flags, labels=labels)
    add_message(item, headers, body, metadata, key=key, size=None)
    return item


def _key(headers: HeaderFields, body: Body) -> str:
    """Return a key that is the same in every file of Outlook.

    It covers the text for the same reason as ``message_key``.
    """
    names = ("message-id", "from", "date", "subject")
    parts = [*(headers.raw(name) for name in names), "".join(body.text.split())]
    digest = sha256("\0".join(parts).encode("utf-8", "replace"))
    return f"{KEY_PREFIX}{digest.hexdigest()[:32]}"


def _headers(message: MapiMessage) -> HeaderFields:
    """Return the header of the message as it was sent, completed by properties."""
    properties = message.properties
    sent_at = properties.time(_SENT_AT, _DELIVERED_AT, _CREATED_AT)
    author = _address(properties, *_AUTHOR) or _address(properties, *_SENDER)
    fields = {
        "message-id": properties.text(_MESSAGE_ID),
        "in-reply-to": properties.text(_REPLY_TO_ID),
        "references": properties.text(_REFERENCES),
        "from": author,
        "to": _recipients(message, kind=1),
        "cc": _recipients(message, kind=2),
        "subject": _subject(properties),
        "date": "" if sent_at is None else format_datetime(sent_at),
    }
    sent = properties.text(_TRANSPORT_HEADERS)
    known = HeaderFields(sent.encode("utf-8", "replace"))
    lines = [sent]
    lines += (
        f"{name}: {one_line(value, max_chars=60_000)}"
        for name, value in fields.items()
        if value and not known.raw(name)
    )
    return HeaderFields("\n".join(lines).encode("utf-8", "replace"))


def _subject(properties: MapiProperties) -> str:
    """Return the subject without the mark that counts the characters of its "Re: "."""
    subject = properties.text(_SUBJECT)
    return subject[2:] if subject.startswith("\x01") else subject


def _recipients(message: MapiMessage, *, kind: int) -> str:
    chosen = [each for each in message.recipients if each.number(_RECIPIENT_KIND) & 0xF == kind]
    return ", ".join(filter(None, (_address(each, *_RECIPIENT) for each in chosen)))


def _address(properties: MapiProperties, name_id: int, *address_ids: int) -> str:
    """Return a name and address as a header has them; Exchange's own addresses are left out."""
    name = properties.text(name_id).replace("\\", "").replace('"', "'").strip()
    addresses = (properties.text(each) for each in address_ids)
    address = next((each for each in addresses if "@" in each and not set(each) & set(" <>,;")), "")
    if not name and not address:
        return ""
    return f'"{name}" <{address}>'


def _body(properties: MapiProperties) -> Body:
    plain = properties.text(_PLAIN).replace("\r\n", "\n").strip()
    html = _html(properties).strip()
    texts = [DisplayedText(plain), DisplayedText(html_to_text(html), html)]
    chosen = select_alternative([[each] for each in texts if each.text])
    if not chosen and (rtf := _decompress_rtf(properties.content(_RTF))):
        chosen = [DisplayedText(rtf)]
    if not chosen:
        return Body(html=html)
    return Body(chosen[0].text, "html" if chosen[0].html else "plain", html)


def _decompress_rtf(content: bytes) -> str:
    """Return the text of compressed RTF, or "" for damaged content and after the time limit."""
    try:
        with time_limit(_RTF_SECONDS):
            return rtf_text(compressed_rtf.decompress(content)) if content else ""
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - both libraries raise arbitrary errors
        return ""


def _html(properties: MapiProperties) -> str:
    if text := properties.text(_HTML):
        return text
    return decode(text_prefix(properties.content(_HTML)), properties.charset_of_texts())


def _file_parts(message: MapiMessage, item: ParsedItem, *, depth: int) -> Iterator[MimePart]:
    """Yield the files of a message, and behind each attached message its own."""
    left = FILES_MAX_BYTES
    for file in message.files[:MAX_FILES]:
        name = one_line(file.properties.text(*FILE_NAMES), max_chars=255)
        if file.message is not None:
            if depth >= MAX_DEPTH:
                item.add_issue(ReceiptCode.NESTED_TOO_DEEPLY)
                return
            yield file_part(_as_text(file.message), name=name, media_type="message/rfc822")
            yield from _file_parts(file.message, item, depth=depth + 1)
            continue
        content = file.properties.content(FILE_CONTENT)
        left -= len(content)
        if file.properties.number(FILE_METHOD) in _BY_REFERENCE and not content:
            item.add_issue(ReceiptCode.FILE_MISSING, detail=name[:80])
        elif left < 0:
            item.add_issue(ReceiptCode.FILE_TOO_LARGE, detail=name[:80])
        else:
            yield file_part(
                content,
                name=name,
                media_type=file.properties.text(_FILE_TYPE),
                is_inline=bool(file.properties.number(_FILE_FLAGS) & _IS_DISPLAYED),
                content_id=file.properties.text(_FILE_ID),
            )
    item.issues += message.issues if depth else ()


def _as_text(message: MapiMessage) -> bytes:
    """Return an attached message as mail without its files."""
    headers = _headers(message)
    names = ("message-id", "date", "from", "to", "cc", "subject")
    lines = [f"{name}: {value}" for name in names if (value := headers.raw(name))]
    lines += ["content-type: text/plain; charset=utf-8", "", _body(message.properties).text]
    return "\n".join(lines).encode("utf-8", "replace")
