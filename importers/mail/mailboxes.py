"""Claim and read mbox files, Maildir folders and .eml files, one message in memory at a time.

Each message is imported once, also if the connection has it from files of another kind.
"""

import base64
import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import IO, Any, NamedTuple

from importers.core.export_files import MAILDIR_NAME, MAILDIR_PARTS, ExportFile, iter_items
from importers.core.importer import (
    ExportFiles,
    FileSample,
    Importer,
    Options,
    Reader,
    claim_by_suffix,
    claim_each,
)
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issue_only,
)
from importers.core.text import detect_language
from importers.mail.records import MailboxMetadata, message_text, parse_message

_DIGEST_BYTES = 8
BLOCK_BYTES = 256 * 1024
MAX_SAMPLED = 40
MESSAGE_MAX_BYTES = 48 * 1024 * 1024
"""Mail servers accept about half of it."""
_SEPARATOR_START = b"\nFrom "
_SEPARATOR_MAX_BYTES = 1_000
# A sender and a date, as in "From ida@example.org Mon Jan  5 08:30:00 2026". Text rarely has both.
_SEPARATOR = re.compile(
    rb"From [^\r\n]{0,400}?(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [^\r\n]{0,60}?|\b\d{4}-\d\d-\d\d[T ])"
    rb"\d\d?:\d\d[^\r\n]*\r?(?:$|\n(?P<header>[!-9;-~]+[ \t]*:)|\n(?=\r?\n|>?From |$))"
)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MBOX_START = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,64}From [^\r\n]*\d\d:\d\d[^\r\n]*\r?\n[!-9;-~]+:")
# Google Takeout writes an id instead of the sender into the separator, and its labels before the mail.
_TAKEOUT_SEPARATOR = re.compile(rb"From \d{1,20}@xxx ")
_TAKEOUT_START = re.compile(
    rb"\s{0,64}From \d{1,20}@xxx [^\r\n]*\r?\nX-GM-THRID:[^\r\n]*\r?\nX-Gmail-Labels:"
)
_MAILDIR_FLAGS = re.compile(r"[:;!]2,([A-Za-z]*)$")
"""Windows cannot store a colon in a name."""
_EMLX_START = re.compile(rb"\s*(\d{1,10})[ \t]*\r?\n")
_EMLX_FLAGS = re.compile(rb"<key>flags</key>\s*<integer>(\d{1,19})</integer>")
_HEADER_START = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*){0,40}?"
    rb"(?:message-id|received|from|date|mime-version|return-path|subject|delivered-to):",
    re.IGNORECASE,
)


def leave_out_twins(read: Reader) -> Reader:
    """Return a reader that leaves out the messages in ``Options.twins``."""
    return partial(_read, read)


def _read(read: Reader, files: ExportFiles, options: Options) -> ExportItems:
    twins = _Digests(base64.b64decode(options.twins))
    for item in read(files, options):
        yield replace(item, parse=partial(_parse, item, twins)) if len(twins) else item


def _parse(item: ExportItem, twins: "_Digests") -> ParsedItem:
    parsed = item.parse()
    for record in parsed.records:
        if record.stream == "messages" and record.data in twins:
            subject = str(record.data["subject"] or "")
            return ParsedItem(issues=[Issue(ReceiptCode.ALREADY_IMPORTED, subject[:80])])
    return parsed


class _Digests:
    """The digests of messages, sorted, as ``stored_keys.twin_digests`` returns them."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content) // _DIGEST_BYTES

    def __contains__(self, message: dict[str, Any]) -> bool:
        identity = message["internet_message_id"] or message["content_digest"]
        if not identity:
            return False
        parts = (identity, message["subject"] or "")
        digest = sha256("\n".join(parts).encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
        at = bisect_left(range(len(self)), digest, key=self._at)
        return at < len(self) and self._at(at) == digest

    def _at(self, number: int) -> bytes:
        return self._content[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES]


class MboxMessage(NamedTuple):
    """A message of an mbox file. ``raw`` is None where it is too long."""

    raw: bytes | None
    separator: bytes
    offset: int
    size: int

    @property
    def date(self) -> str:
        """The date in the separator, after the sender."""
        return self.separator[5:].partition(b" ")[2].decode("latin-1").strip()


def iter_mbox(stream: IO[bytes]) -> Iterator[MboxMessage]:
    """Yield the messages of an mbox file of any dialect, and skip any text before the first.

    A separator has a date, and an empty line before it or a header after it, which tells it from
    unquoted text that begins with "From ". A read error is raised after all messages before it.
    """
    window = _Window(stream)
    start = window.find_separator(0)
    while start is not None:
        next_start = window.find_separator(start + 1)
        yield window.message(start, next_start)
        if next_start is not None:
            window.discard(next_start)
            next_start = 0
        start = next_start
    if window.read_error is not None:
        raise window.read_error


class _Window:
    """The part of the file that is in memory, from ``_offset`` on."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._offset = 0
        self._skipped = 0
        self._is_at_end = False
        self.read_error: Exception | None = None

    def find_separator(self, position: int) -> int | None:
        """Return the position of the next separator, reading more as needed; None at the end."""
        if position == 0 and self._offset == 0 and self._fill() and _SEPARATOR.match(self._buffer):
            return 0
        position = max(0, position - 1)
        while True:
            found = self._buffer.find(_SEPARATOR_START, position)
            # At the end of the file, a separator can be shorter than the maximum.
            if found >= 0 and (self._is_at_end or len(self._buffer) > found + _SEPARATOR_MAX_BYTES):
                if self._is_separator(found):
                    return found + 1
                position = found + 1
                continue
            if self._is_at_end:
                return None
            position = found if found >= 0 else max(0, len(self._buffer) - len(_SEPARATOR_START))
            position = max(0, position - self._discard_middle(position))
            self._fill()

    def message(self, start: int, end: int | None) -> MboxMessage:
        end = len(self._buffer) if end is None else end
        size = end - start + self._skipped
        line_end = self._buffer.find(b"\n", start, end) + 1 or end
        separator = bytes(self._buffer[start:line_end]).strip()
        offset = self._offset + start
        if size > MESSAGE_MAX_BYTES:
            return MboxMessage(None, separator, offset, size)
        content = bytes(memoryview(self._buffer)[line_end:end])
        if b"\n>From " in content or b"\n>>" in content:
            content = _QUOTED_FROM.sub(rb"\1", content)
        return MboxMessage(content, separator, offset, size)

    def discard(self, count: int) -> None:
        del self._buffer[:count]
        self._offset += count + self._skipped
        self._skipped = 0

    def _fill(self) -> bool:
        try:
            block = b"" if self._is_at_end else self._stream.read(BLOCK_BYTES)
        except Exception as error:  # noqa: BLE001 - iter_mbox raises it after all messages
            self.read_error, block = error, b""
        self._buffer += block
        self._is_at_end = not block
        return bool(block)

    def _is_separator(self, found: int) -> bool:
        before = self._buffer[max(0, found - 2) : found]
        follows_empty_line = found == 0 or before.endswith(b"\n") or before == b"\n\r"
        match = _SEPARATOR.match(self._buffer, found + 1)
        return match is not None and (follows_empty_line or match["header"] is not None)

    def _discard_middle(self, position: int) -> int:
        """Discard the middle of a message that is too long, and return how many bytes."""
        if len(self._buffer) <= MESSAGE_MAX_BYTES + BLOCK_BYTES:
            return 0
        end = min(position, len(self._buffer) - BLOCK_BYTES)
        count = end - BLOCK_BYTES
        del self._buffer[BLOCK_BYTES:end]
        self._skipped += count
        return count


def _is_mbox(file: ExportFile) -> bool:
    """Return whether a file begins with a separator, or a .mbox file has one in its head."""
    has_suffix = file.suffix in (".mbox", ".mbx")
    return bool(_MBOX_START.match(file.head)) or (has_suffix and b"From " in file.head)


def _is_maildir_message(file: ExportFile) -> bool:
    """Return whether a file is in a folder ``cur`` or ``new``, or named as in these, and is mail."""
    is_named = file.path.parent.name in MAILDIR_PARTS or MAILDIR_NAME.match(file.path.name)
    return bool(is_named and _HEADER_START.match(file.head))


def _read_mbox(file: ExportFile, *, is_folder: bool) -> ExportItems:
    folder = _mbox_folder(file, is_folder=is_folder)
    is_takeout = _TAKEOUT_START.match(file.head) is not None
    with file.open() as stream:
        for number, message in enumerate(iter_mbox(stream), 1):
            if message.raw is None:
                parse = issue_only(ReceiptCode.TOO_LARGE, f"{message.size:,} bytes")
            elif not message.raw.strip():
                parse = issue_only(ReceiptCode.EMPTY)
            else:
                has_labels = is_takeout and _TAKEOUT_SEPARATOR.match(message.separator)
                metadata = MailboxMetadata(folder, date=message.date, is_takeout=bool(has_labels))
                parse = partial(parse_message, message.raw, metadata)
            location = f"message {number:,}, at byte {message.offset:,}"
            yield ExportItem(file.name, location, message.size, parse)


def _sample_mboxes(files: ExportFiles, options: Options) -> list[FileSample]:
    with files[0].open() as stream:
        found = islice(iter_mbox(stream), MAX_SAMPLED)
        texts = [message_text(message.raw) for message in found if message.raw is not None]
    return [FileSample(file=files[0].name, language=detect_language(texts))]


def _sample_files(files: ExportFiles, options: Options) -> list[FileSample]:
    contents = (file.read(max_bytes=MESSAGE_MAX_BYTES) for file in files[:MAX_SAMPLED])
    texts = [message_text(_unpack_emlx(content)[0]) for content in contents]
    return [FileSample(file=files[0].name, language=detect_language(texts))]


def _mbox_folder(file: ExportFile, *, is_folder: bool) -> str | None:
    """Return the name of the mailbox; Apple Mail calls every file mbox, in a folder A.mbox."""
    if file.path.name == "mbox":
        name = file.path.parent.name or file.export.removesuffix(".zip")
        return name.removesuffix(".mbox") if name.endswith(".mbox") else None
    name = file.path.name
    return (file.path.stem if file.suffix in (".mbox", ".mbx") else name) if is_folder else None


def _read_files(files: ExportFiles, options: Options) -> ExportItems:
    for file in files:
        yield ExportItem(file.name, "", file.size, partial(_parse_file, file))


def _parse_file(file: ExportFile) -> ParsedItem:
    raw = file.read(max_bytes=MESSAGE_MAX_BYTES)
    flags, folder = None, file.path.parent.name or None
    if file.suffix == ".emlx":
        raw, flags = _unpack_emlx(raw)
        folders = (parent for parent in file.path.parents if parent.suffix == ".mbox")
        folder = next((parent.stem for parent in folders), folder)
    raw = raw.removeprefix(codecs.BOM_UTF8).lstrip()
    if b"\n" not in raw:
        raw = raw.replace(b"\r", b"\n")
    if not _HEADER_START.match(raw[:65536]):
        raise UnreadableError(ReceiptCode.MALFORMED)
    if file.path.parent.name in MAILDIR_PARTS or MAILDIR_NAME.match(file.path.name):
        match, folder = _MAILDIR_FLAGS.search(file.path.name), _maildir_folder(file)
        flags = match[1] if match else ""
    return parse_message(raw, MailboxMetadata(folder, flags))


def _unpack_emlx(content: bytes) -> tuple[bytes, str | None]:
    """Return the message of Apple Mail, which its length precedes, and its flags as in a Maildir."""
    match = _EMLX_START.match(content)
    if match is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    end = match.end() + int(match[1])
    flags = _EMLX_FLAGS.search(content, end)
    return content[match.end() : end], None if flags is None else _letters(int(flags[1]))


def _letters(flags: int) -> str:
    return "F" * bool(flags & 16) + "S" * bool(flags & 1)


def _maildir_folder(file: ExportFile) -> str:
    """Return Archive/2024 for ``.Archive.2024`` (Maildir++), and inbox for the root."""
    folder = file.path.parent
    folder = folder.parent if folder.name in MAILDIR_PARTS else folder
    return folder.name.strip(".").replace(".", "/") if folder.name.startswith(".") else "inbox"


MBOX = Importer(
    claim=claim_each(_is_mbox),
    # Of several files, each is a folder with its name; the name of a single one is arbitrary.
    read=leave_out_twins(
        lambda files, _options: iter_items(files, partial(_read_mbox, is_folder=len(files) > 1))
    ),
    sample=_sample_mboxes,
)
MAILDIR = Importer(
    claim=claim_each(_is_maildir_message),
    read=leave_out_twins(_read_files),
    sample=_sample_files,
)
EML = Importer(
    claim=claim_by_suffix(".eml", ".emlx", ".mht"),
    read=leave_out_twins(_read_files),
    sample=_sample_files,
)
