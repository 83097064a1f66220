"""Import Outlook messages (.msg) and data files (.pst, .ost)."""

import ctypes
import io
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import IO, Any

import compressed_rtf
import olefile

from importers.core.export_files import ExportFile
from importers.core.file_texts import TimeLimitExceeded, rtf_text, time_limit
from importers.core.importer import ExportFiles, Importer, Options, claim_each, read_each
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import decode, html_to_text, one_line, replace_unstorable, text_prefix
from importers.mail.mailboxes import MESSAGE_MAX_BYTES, leave_out_twins
from importers.mail.mime import (
    Body,
    DisplayedText,
    HeaderFields,
    MimePart,
    file_part,
    select_alternative,
)
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
        "bcc": _recipients(message, kind=3),
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


_PROPERTIES = "__properties_version1.0"
_STREAM = "__substg1.0_"
_MSG_RECIPIENT, _ATTACHMENT, _ATTACHED_MESSAGE = "__recip_", "__attach_", "__substg1.0_3701000D"
_NAME_MAP = tuple(("__nameid_version1.0", f"{_STREAM}{each}0102") for each in ("0003", "0004"))
_ROOT_HEADER_BYTES, _MESSAGE_HEADER_BYTES, _PART_HEADER_BYTES = 32, 24, 8
_FIXED = struct.Struct("<HHI8s")
"""Type, id, flags and value of a property."""
_VARIABLE_TYPES = (0x001E, 0x001F, 0x0102, 0x000D)


class _Container:
    """The streams of a .msg file, by the storage that has them."""

    def __init__(self, ole: olefile.OleFileIO) -> None:
        self._ole = ole
        self._names: dict[tuple[str, ...], list[str]] = {}
        for *storage, name in ole.listdir(streams=True, storages=True):
            self._names.setdefault(tuple(storage), []).append(name)
        self._categories_id = find_categories_id(*map(self._read, _NAME_MAP))

    def message(self, storage: tuple[str, ...] = (), *, depth: int = 0) -> MapiMessage:
        header_bytes = _MESSAGE_HEADER_BYTES if storage else _ROOT_HEADER_BYTES
        properties = self._properties(storage, header_bytes, None)
        charset = properties.charset_of_texts()
        names = self._names.get(storage, ())
        issues = [Issue(ReceiptCode.NESTED_TOO_DEEPLY)] if depth > MAX_DEPTH else []
        return MapiMessage(
            MapiProperties(properties.values, charset),
            [
                self._properties((*storage, name), _PART_HEADER_BYTES, charset)
                for name in names
                if name.startswith(_MSG_RECIPIENT)
            ],
            [
                self._file((*storage, name), charset, depth)
                for name in names
                if name.startswith(_ATTACHMENT) and not issues
            ],
            issues,
            self._categories(storage, charset),
        )

    def _categories(self, storage: tuple[str, ...], charset: str | None) -> list[str]:
        """Return the texts of the property, each of which has a stream: 8000101F-00000000."""
        start = f"{_STREAM}{self._categories_id:04X}"
        names = sorted(name for name in self._names.get(storage, ()) if name.startswith(start))
        return [
            decode_text(int(name[len(start) :][:4], 16), self._read((*storage, name)), charset)
            for name in names[:MAX_CATEGORIES]
            if "-" in name
        ]

    def _file(self, storage: tuple[str, ...], charset: str | None, depth: int) -> MapiFile:
        is_message = _ATTACHED_MESSAGE in self._names.get(storage, ())
        return MapiFile(
            self._properties(storage, _PART_HEADER_BYTES, charset),
            self.message((*storage, _ATTACHED_MESSAGE), depth=depth + 1) if is_message else None,
        )

    def _properties(
        self, storage: tuple[str, ...], header_bytes: int, charset: str | None
    ) -> MapiProperties:
        values: dict[int, tuple[int, bytes]] = {}
        names = self._names.get(storage, ())
        content = self._read((*storage, _PROPERTIES))[header_bytes:]
        whole = len(content) - len(content) % _FIXED.size
        for kind, each, _flags, value in _FIXED.iter_unpack(content[:whole]):
            if kind not in _VARIABLE_TYPES:
                values[each] = kind, value
        for name in names:
            tag = name.removeprefix(_STREAM)
            if tag != name and len(tag) == 8 and name != _ATTACHED_MESSAGE:
                values[int(tag[:4], 16)] = int(tag[4:], 16), self._read((*storage, name))
        return MapiProperties(values, charset)

    def _read(self, path: tuple[str, ...]) -> bytes:
        if self._ole.get_type(list(path)) != olefile.STGTY_STREAM:
            return b""
        return bytes(self._ole.openstream(list(path)).read())


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".msg" and file.head.startswith(olefile.MAGIC)]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    for file in files:
        yield ExportItem(file.name, "", file.size, partial(_parse_file, file))


def _parse_file(file: ExportFile) -> ParsedItem:
    content = file.read(max_bytes=MESSAGE_MAX_BYTES)
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as ole:
            message = _Container(ole).message()
    except MemoryError:
        raise
    except Exception as error:  # olefile raises arbitrary errors
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    if not message.properties.values:
        raise UnreadableError(ReceiptCode.MALFORMED)
    return parse_outlook_message(message, file.path.parent.name or None)


MSG = Importer(
    claim=_claim,
    read=leave_out_twins(_read),
)


MAGIC = b"!BDN"
MAX_FOLDERS = 10_000
MAX_FOLDER_DEPTH = 50
MAX_RECIPIENTS = 500
CHECKED_VERSION = "20260926"
"""The release of libpff-python whose objects ``_attached_message`` knows."""
_ROOT, _PST_ATTACHED_MESSAGE, _BINARY = "IPM_SUBTREE", 5, 0x102
_NAME_ENTRIES, _NAME_TEXTS = 3, 4
"""Properties of the map of named properties."""


def _read_file(file: ExportFile) -> ExportItems:
    try:
        import pypff
    except ImportError:
        raise UnreadableError(ReceiptCode.NEEDS_OUTLOOK) from None
    with _open_seekable(file) as stream:
        store = pypff.file()
        try:
            store.open_file_object(stream)
            folders = list(_folders(store.get_root_folder()))
            categories_id = _categories_id(store)
        except (OSError, RuntimeError) as error:
            raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
        size = file.size // max(1, sum(count for _, _, count in folders))
        for path, folder, count in folders:
            for number in range(count):
                location = f"{path or '/'}, item {number + 1:,}"
                parse = partial(_parse, folder, number, path, categories_id)
                yield ExportItem(file.name, location, size, parse)


@contextmanager
def _open_seekable(file: ExportFile) -> Iterator[IO[bytes]]:
    """Open a file, or a copy of one in an archive, where going back is slow."""
    with file.open() as stream:
        if not file.export.lower().endswith(".zip"):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy, 1024 * 1024)
            yield copy


def _folders(root: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield path, folder and number of items of all folders."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), root)]
    for _ in range(MAX_FOLDERS):
        if not waiting:
            return
        path, folder = waiting.pop()
        yield _displayed_path(path), folder, folder.number_of_sub_messages
        if len(path) <= MAX_FOLDER_DEPTH:
            below = [folder.get_sub_folder(each) for each in range(folder.number_of_sub_folders)]
            waiting += [((*path, each.name or "?"), each) for each in reversed(below)]


def _categories_id(store: Any) -> int:
    found: dict[int, bytes] = {}
    item = store.get_name_to_id_map()
    for number in range(0 if item is None else item.number_of_record_sets):
        entries = item.get_record_set(number).entries
        found |= {each.entry_type: each.data or b"" for each in entries}
    return find_categories_id(found.get(_NAME_ENTRIES, b""), found.get(_NAME_TEXTS, b""))


def _displayed_path(path: Sequence[str]) -> str:
    """Return the path below the folder that Outlook shows as the root."""
    start = path.index(_ROOT) + 1 if _ROOT in path else 1
    return "/".join(path[start:])


def _parse(folder: Any, number: int, path: str, categories_id: int) -> ParsedItem:
    try:
        message = _MessageReader(categories_id).read(folder.get_sub_message(number))
    except (OSError, RuntimeError, AttributeError) as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    return parse_outlook_message(message, path or None)


class _MessageReader:
    """Reads a message, and those that are attached to it."""

    def __init__(self, categories_id: int) -> None:
        self._categories_id = categories_id
        self._left = FILES_MAX_BYTES

    def read(self, message: Any, *, depth: int = 0) -> MapiMessage:
        charset = _properties(message, None).charset_of_texts()
        issues = [Issue(ReceiptCode.NESTED_TOO_DEEPLY)] if depth > MAX_DEPTH else []
        recipients = list[MapiProperties]()
        try:
            sets: Any = getattr(message, "recipients", None)
            count = 0 if sets is None else sets.number_of_record_sets
            for each in range(min(MAX_RECIPIENTS, count)):
                recipients.append(_set_properties(sets.get_record_set(each), charset))
        except OSError:
            issues.append(Issue(ReceiptCode.MALFORMED, "recipients"))
        files = [] if depth > MAX_DEPTH else list(self._files(message, charset, issues, depth))
        properties = _properties(message, charset, self._categories_id)
        categories = properties.texts(self._categories_id)
        return MapiMessage(properties, recipients, files, issues, categories)

    def _files(
        self, message: Any, charset: str | None, issues: list[Issue], depth: int
    ) -> Iterator[MapiFile]:
        """Yield the attached files and messages, and add an issue for each that cannot be read."""
        for number in range(min(MAX_FILES, getattr(message, "number_of_attachments", 0))):
            try:
                attachment = message.get_attachment(number)
                properties = _properties(attachment, charset)
                if properties.number(FILE_METHOD) == _PST_ATTACHED_MESSAGE:
                    if (attached := _attached_message(attachment)) is None:
                        detail = f"attached message {properties.text(*FILE_NAMES)}"
                        issues.append(Issue(ReceiptCode.NOT_SUPPORTED, detail[:80]))
                    else:
                        yield MapiFile(properties, self.read(attached, depth=depth + 1))
                    continue
                size = _size(attachment)
                self._left -= size
                if self._left < 0:
                    issues.append(Issue(ReceiptCode.FILE_TOO_LARGE, f"{size:,} bytes"))
                    continue
                content = attachment.read_buffer(size) if size else b""
            except OSError as error:
                issues.append(Issue(ReceiptCode.FILE_MISSING, str(error)[:80]))
                continue
            values = {**properties.values, FILE_CONTENT: (_BINARY, content)}
            yield MapiFile(MapiProperties(values, charset))


def _attached_message(attachment: Any) -> Any:
    """Return the message of an attachment, or None if the library does not find it.

    The module has no function for it. That of its library adds the message to the items of the
    attachment, where the module finds it, unless a message of the file has the same number. The
    object begins with the pointer that it takes.
    """
    import pypff

    if pypff.get_version() != CHECKED_VERSION:
        return None
    library = ctypes.CDLL(pypff.__file__)
    item, found = (
        ctypes.c_void_p.from_address(id(attachment) + object.__basicsize__),
        ctypes.c_void_p(),
    )
    if library.libpff_attachment_get_item(item, ctypes.byref(found), None) == 1:
        library.libpff_item_free(ctypes.byref(found), None)
    return attachment.get_sub_item(0) if attachment.number_of_sub_items == 1 else None


def _size(attachment: Any) -> int:
    try:
        return int(attachment.size)
    except OSError:  # it has no content
        return 0


def _properties(item: Any, charset: str | None, *named: int) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(item.number_of_record_sets):
        values |= _set_properties(item.get_record_set(number), charset, *named).values
    return MapiProperties(values, charset)


def _set_properties(record_set: Any, charset: str | None, *named: int) -> MapiProperties:
    values: dict[int, tuple[int, bytes]] = {}
    for number in range(record_set.number_of_entries):
        entry = record_set.get_entry(number)
        if (each := entry.entry_type) in USED_PROPERTIES or each in named:
            values[each] = entry.value_type or 0, entry.data or b""
    return MapiProperties(values, charset)


PST = Importer(
    claim=claim_each(lambda file: file.head.startswith(MAGIC)),
    read=leave_out_twins(read_each(_read_file)),
)
