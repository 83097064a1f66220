"""Hold what an importer yields: parsed records, attachments, issues, and codes of receipts with their texts.

An importer first divides an export into items, which is cheap; parsing an item is not. A resumed
run therefore skips finished items quickly, and an error in one item affects that item only.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from importers.core.text import TEXT_MAX_CHARS, one_line, truncate

T = TypeVar("T")

RECORD_MAX_BYTES = 16 * 1024 * 1024
ITEM_MAX_BYTES = 64 * 1024 * 1024
"""Largest record, and largest sum of the records of one item, as JSON."""


class ReceiptText(NamedTuple):
    """The texts of a receipt, as in ``receipts.toml``."""

    problem: str
    next_step: str
    is_imported: bool = False
    page_step: str = ""


@cache
def _receipt_texts() -> dict[str, ReceiptText]:
    found = tomllib.loads(Path(__file__).with_name("receipts.toml").read_text(encoding="utf-8"))
    return {code: ReceiptText(**text) for code, text in found.items()}


class ReceiptCode(StrEnum):
    """Reason of a receipt; the values are stored."""

    # Of a file or an archive
    NOT_RECOGNISED = "not_recognised"
    CANNOT_OPEN = "cannot_open"
    DAMAGED = "damaged"
    EMPTY = "empty"
    ENCRYPTED = "encrypted"
    UNSAFE_NAME = "unsafe_name"
    ZIP_BOMB = "zip_bomb"
    PACKED_OTHERWISE = "packed_otherwise"
    NO_FILE = "no_file"
    # Of an item
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NO_IDENTITY = "no_identity"
    BAD_DATE = "bad_date"
    BAD_COORDINATES = "bad_coordinates"
    BAD_AMOUNT = "bad_amount"
    UNSURE_SIGN = "unsure_sign"
    ALREADY_IMPORTED = "already_imported"
    MAYBE_IMPORTED = "maybe_imported"
    NOT_A_BOOKING = "not_a_booking"
    NOT_BOOKED = "not_booked"
    FEE_ASIDE = "fee_aside"
    DELETED = "deleted"
    PARTLY_IMPORTED = "partly_imported"
    PARTLY_ENCRYPTED = "partly_encrypted"
    BAD_PROPERTIES = "bad_properties"
    UNSURE_CHARSET = "unsure_charset"
    MADE_FROM_MEMORY = "made_from_memory"
    COLUMNS_KEPT = "columns_kept"
    UNKNOWN_COLUMNS = "unknown_columns"
    NOT_SUPPORTED = "not_supported"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    BAD_RECURRENCE = "bad_recurrence"
    BAD_LISTED_DATE = "bad_listed_date"
    CHANGES_LATER = "changes_later"
    OLDER_VERSION = "older_version"
    UNKNOWN_TIME_ZONE = "unknown_time_zone"
    TOO_MANY_OCCURRENCES = "too_many_occurrences"
    OUTSIDE_WINDOW = "outside_window"
    TEXT_ONCE = "text_once"
    TEXT_CUT = "text_cut"
    NO_TEXT = "no_text"
    LOCKED = "locked"
    OLD_OFFICE = "old_office"
    NEEDS_EXTRA = "needs_extra"
    NEEDS_OFFICE = "needs_office"
    NEEDS_OUTLOOK = "needs_outlook"
    NEEDS_OCR = "needs_ocr"
    PICTURE_NEEDS_OCR = "picture_needs_ocr"
    PICTURES_NEED_OCR = "pictures_need_ocr"
    PICTURE_WITHOUT_TEXT = "picture_without_text"
    PAGES_LEFT_OUT = "pages_left_out"
    TEXT_RECOGNIZED = "text_recognized"
    FILE_TOO_LARGE = "file_too_large"
    FILE_MISSING = "file_missing"
    NOT_STORED = "not_stored"
    ERASED = "erased"

    @property
    def text(self) -> ReceiptText:
        return _receipt_texts()[self]


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """A record of a stream, with its key in ``data["id"]``.

    It updates the record with the same key of an earlier import. Of several with the same key in
    one export, the first counts. ``replaces`` are other keys under which
    an earlier import stored it, such as those of a series before it moved.
    Fields in ``unknown`` are those that the export does not know: a stored value remains.
    """

    stream: str
    data: dict[str, Any]
    replaces: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaleRecords:
    """Records of an earlier import to delete: ``key``, and all keys that begin with it and a dot.

    Keys in ``keep`` remain, and keys before ``first``.
    """

    stream: str
    key: str
    keep: tuple[str, ...] = ()
    first: str = ""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file that the record with this stream and key names in its ``blob_ref``."""

    stream: str
    key: str
    blob_id: str
    media_type: str
    content: bytes


class Issue(NamedTuple):
    """A problem of an item. ``detail`` may quote a few characters of it, such as a bad date."""

    code: ReceiptCode
    detail: str = ""


@dataclass(slots=True)
class ParsedItem:
    """The records, files and issues of one item of an export.

    ``unread_texts`` are keys of records whose text needs an extra: a stored one remains.
    ``recognition_seconds`` remain to recognize the text of its scans: the sandbox ends a process
    that is silent for longer.
    """

    records: list[ParsedRecord] = field(default_factory=list)
    files: list[ParsedFile] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    stale: list[StaleRecords] = field(default_factory=list)
    unread_texts: set[str] = field(default_factory=set)
    recognition_seconds: float = 60.0

    def add_issue(self, code: ReceiptCode, *, detail: str = "") -> None:
        self.issues.append(Issue(code, detail))

    def require_date(self, date: T | None, written: object) -> T | None:
        """Return a date or moment; a missing one is an issue that quotes what was written."""
        if date is None:
            self.add_issue(ReceiptCode.BAD_DATE, detail=str(written)[:40])
        return date

    def cut_line(self, text: str, *, max_chars: int = 1_000) -> str:
        """Return a name or title on one line; one that is too long is cut, which is an issue."""
        line = one_line(text, max_chars=max_chars + 1)
        if len(line) > max_chars:
            self.add_issue(ReceiptCode.TEXT_CUT)
        return line[:max_chars]

    def cut_text(self, text: str) -> str:
        """Return a text as it can be stored; one that is too long is cut, which is an issue."""
        if len(text) > TEXT_MAX_CHARS:
            self.add_issue(ReceiptCode.TEXT_CUT)
        return truncate(text)


@dataclass(frozen=True, slots=True)
class ExportItem:
    """An item that is not parsed yet.

    ``location`` tells a person where in ``file`` it is; ``size`` is in bytes.
    """

    file: str
    location: str
    size: int
    parse: Callable[[], ParsedItem]


class UnreadableError(Exception):
    """The current item, or the rest of the current file, cannot be read."""

    def __init__(self, code: ReceiptCode, *, detail: str = "") -> None:
        super().__init__(code)
        self.issue = Issue(code, detail)


def issue_only(code: ReceiptCode, detail: str = "") -> Callable[[], ParsedItem]:
    """Return a parser for an item that has no records."""
    return lambda: ParsedItem(issues=[Issue(code, detail)])


def issue_item(
    file: str, location: str, code: ReceiptCode, detail: str = "", *, size: int = 0
) -> ExportItem:
    """Return an item that has no records."""
    return ExportItem(file, location, size, issue_only(code, detail))


def record_key(prefix: str, *parts: object, length: int = 28) -> str:
    """Return a key for a record without an id, made of what is the same in every export."""
    identity = "\0".join(map(str, parts)).encode("utf-8", "replace")
    return f"{prefix}{sha256(identity).hexdigest()[:length]}"


ExportItems = Iterator[ExportItem]


class ContentKeys:
    """Makes record keys from content, for items without an id.

    Equal items of a group, such as a minute or a file, are numbered.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._group: object = None
        self._counts: Counter[bytes] = Counter()

    def start_group(self, group: object) -> None:
        if group != self._group:
            self._group = group
            self._counts.clear()

    def key(self, *parts: object) -> str:
        content = "\0".join(map(str, parts)).encode("utf-8", "replace")
        digest = sha256(content)
        short = digest.digest()[:12]
        self._counts[short] += 1
        if self._counts[short] > 1:
            digest.update(b"\0%d" % self._counts[short])
        return f"{self._prefix}{digest.hexdigest()[:28]}"


_ONCE = frozenset((ReceiptCode.PICTURES_NEED_OCR,))
"""Codes of receipts that a run has once, for the first item: a chat has thousands of pictures."""


def without_repeated(issues: Iterable[Issue], reported: set[ReceiptCode]) -> Iterator[Issue]:
    """Yield the issues, those that a run has once only if not ``reported``, and add them to it."""
    for issue in issues:
        if issue.code not in reported:
            yield issue
        if issue.code in _ONCE:
            reported.add(issue.code)
