"""Hold what an importer yields: parsed records, attachments, issues, and codes of receipts with their texts.

An importer first divides an export into items, which is cheap; parsing an item is not. A resumed
run therefore skips finished items quickly, and an error in one item affects that item only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from importers.core.text import truncate

T = TypeVar("T")

RECORD_MAX_BYTES = 16 * 1024 * 1024
ITEM_MAX_BYTES = 64 * 1024 * 1024
"""Largest record, and largest sum of the records of one item, as JSON."""


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

    def cut_text(self, text: str) -> str:
        """Return a text as it can be stored; one that is too long is cut, which is an issue."""
        text, is_cut = truncate(text)
        if is_cut:
            self.add_issue(ReceiptCode.TEXT_CUT)
        return text


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


class ReceiptText(NamedTuple):
    """The texts of a receipt. ``is_imported``: the item was imported in spite of the issue.

    ``page_step`` is the next step on a page, where ``next_step`` names a command line option.
    """

    problem: str
    next_step: str
    is_imported: bool = False
    page_step: str = ""


RECEIPT_TEXTS: dict[ReceiptCode, ReceiptText] = {
    ReceiptCode.NOT_RECOGNISED: ReceiptText(
        "No importer recognizes this file.",
        "Keep the file. If docs/importing.md lists its format, name that with --as.",
        page_step="Keep the file. If you find its format in the menu Kind of the import page, choose it.",
    ),
    ReceiptCode.CANNOT_OPEN: ReceiptText(
        "The file cannot be opened.", "Check that it exists and that the server may read it."
    ),
    ReceiptCode.DAMAGED: ReceiptText(
        "The file is damaged or incomplete; everything before the damage was imported.",
        "Download the export again and import it again.",
    ),
    ReceiptCode.EMPTY: ReceiptText(
        "The file is empty, or has nothing that can be imported.", "You need not do anything."
    ),
    ReceiptCode.ENCRYPTED: ReceiptText(
        "The file is password-protected.", "Unpack it yourself and import the unpacked folder."
    ),
    ReceiptCode.UNSAFE_NAME: ReceiptText(
        "The file was skipped: its name points outside the archive.",
        "Do not trust the origin of this archive.",
    ),
    ReceiptCode.ZIP_BOMB: ReceiptText(
        "The file was skipped: its unpacked size is implausible.",
        "If you trust it, unpack it yourself and import the folder.",
    ),
    ReceiptCode.PACKED_OTHERWISE: ReceiptText(
        "The compression method is not supported.",
        "Unpack it yourself and import the unpacked folder.",
    ),
    ReceiptCode.NO_FILE: ReceiptText(
        "This is a link, a pipe or a device and not a file.",
        "Import the target of the link if it belongs to the export.",
    ),
    ReceiptCode.TOO_LARGE: ReceiptText(
        "The item is too large.", "Other items are not affected; keep the original file."
    ),
    ReceiptCode.UNREADABLE: ReceiptText(
        "The item cannot be read.", "Keep the original file, and report the error if it is valid."
    ),
    ReceiptCode.MALFORMED: ReceiptText(
        "The item is not valid in its format.", "Export it again, or correct it by hand."
    ),
    ReceiptCode.NO_IDENTITY: ReceiptText("The item has no id or name.", "Correct it by hand."),
    ReceiptCode.BAD_DATE: ReceiptText(
        "The date is invalid, so the record has none.",
        "Text search finds the record; time filters do not.",
        is_imported=True,
    ),
    ReceiptCode.BAD_COORDINATES: ReceiptText(
        "The coordinates are impossible, so the record has none.",
        "Compare the place with the original.",
        is_imported=True,
    ),
    ReceiptCode.BAD_AMOUNT: ReceiptText(
        "The amount cannot be read exactly.", "Correct it by hand, and import the file again."
    ),
    ReceiptCode.UNSURE_SIGN: ReceiptText(
        "The kind of this booking says that money leaves, but no amount of the file has a minus sign.",
        "If it is wrong, import the file again with --signs as-written or --signs inverted.",
        is_imported=True,
        page_step="If it is wrong, import the file again with another choice for amounts without a"
        " minus sign.",
    ),
    ReceiptCode.ALREADY_IMPORTED: ReceiptText(
        "A file of another format has brought this.",
        "You need not do anything.",
    ),
    ReceiptCode.MAYBE_IMPORTED: ReceiptText(
        "A file of another format has brought a booking of this amount within three days.",
        "Compare both, and erase one of them if they are the same.",
        is_imported=True,
    ),
    ReceiptCode.NOT_A_BOOKING: ReceiptText(
        "The row has no date, or is a balance, so it is not a booking.",
        "Compare it with the totals of the import.",
    ),
    ReceiptCode.FEE_ASIDE: ReceiptText(
        "The row has a fee in a column of its own, which may not be in the amount.",
        "Compare the amount with the bank's statement.",
        is_imported=True,
    ),
    ReceiptCode.NOT_BOOKED: ReceiptText(
        "The bank did not book this: it is pending, was declined or has no effect on the balance.",
        "Import a newer statement if it was booked later.",
    ),
    ReceiptCode.DELETED: ReceiptText(
        "The export says that this was deleted, and has no content of it.",
        "You need not do anything.",
    ),
    ReceiptCode.PARTLY_IMPORTED: ReceiptText(
        "A part of this item was not imported; the rest was.",
        "Compare it with the original.",
        is_imported=True,
    ),
    ReceiptCode.PARTLY_ENCRYPTED: ReceiptText(
        "A passage is encrypted; the rest was imported.",
        "Decrypt the passage in the original program and export again.",
        is_imported=True,
    ),
    ReceiptCode.BAD_PROPERTIES: ReceiptText(
        "The properties at the start of the note cannot be read; they are part of its text.",
        "Correct them by hand, and import the note again.",
        is_imported=True,
    ),
    ReceiptCode.UNSURE_CHARSET: ReceiptText(
        "The text may be in a wrong charset; it was imported as the export has it.",
        "Compare it with the original.",
        is_imported=True,
    ),
    ReceiptCode.MADE_FROM_MEMORY: ReceiptText(
        "The profile of this bank was made without a real statement of it.",
        "Compare the totals of the import with the statement.",
        is_imported=True,
    ),
    ReceiptCode.COLUMNS_KEPT: ReceiptText(
        "No field is known for these columns; each booking has them in its details.",
        "If one is the name or the purpose, import the file again with --column counterparty=NAME or"
        " memo=NAME.",
        is_imported=True,
        page_step="If one is the name or the purpose, import the file again and choose it.",
    ),
    ReceiptCode.UNKNOWN_COLUMNS: ReceiptText(
        "This table does not look like a bank statement.",
        "If its rows are bookings, name the columns: --column date=NAME --column amount=NAME (or"
        " debit= and credit=).",
        page_step="If its rows are bookings, choose the columns of the date and the amount.",
    ),
    ReceiptCode.NOT_SUPPORTED: ReceiptText(
        "Entries of this kind are not imported.", "Keep the original file."
    ),
    ReceiptCode.NESTED_TOO_DEEPLY: ReceiptText(
        "The parts are nested too deeply; the innermost were skipped.",
        "You need not do anything: mail like this is written to do harm.",
        is_imported=True,
    ),
    ReceiptCode.BAD_RECURRENCE: ReceiptText(
        "The recurrence rule is not supported; only the first occurrence was imported.",
        "Compare the series with the original.",
        is_imported=True,
    ),
    ReceiptCode.BAD_LISTED_DATE: ReceiptText(
        "A date that the series adds or excludes is invalid; it was ignored.",
        "Compare the series with the original.",
        is_imported=True,
    ),
    ReceiptCode.CHANGES_LATER: ReceiptText(
        "An exception changes an occurrence and all later ones; all of them were imported changed.",
        "Compare the later occurrences with the original.",
        is_imported=True,
    ),
    ReceiptCode.OLDER_VERSION: ReceiptText(
        "The export has several versions of this entry; only the newest was imported.",
        "If they are different entries, correct their UID by hand.",
        is_imported=True,
    ),
    ReceiptCode.UNKNOWN_TIME_ZONE: ReceiptText(
        "The time zone is unknown; the time zone of this import was used.",
        "Choose the time zone with --timezone.",
        is_imported=True,
        page_step="If it is wrong, import the file again with another time zone.",
    ),
    ReceiptCode.TOO_MANY_OCCURRENCES: ReceiptText(
        "The event has too many occurrences; only the first and those closest to this year were"
        " imported.",
        "Compare the series with the original; docs/importing.md has the limits.",
        is_imported=True,
    ),
    ReceiptCode.OUTSIDE_WINDOW: ReceiptText(
        "Occurrences outside the imported years were skipped.",
        "Import again in a later year for later occurrences.",
        is_imported=True,
    ),
    ReceiptCode.TEXT_ONCE: ReceiptText(
        "The description and attendees are too long to repeat; only the first occurrence has them.",
        "The series_id field connects each occurrence to the first one.",
        is_imported=True,
    ),
    ReceiptCode.TEXT_CUT: ReceiptText(
        "The text is too long; its end was cut off.",
        "The original is in the export.",
        is_imported=True,
    ),
    ReceiptCode.NO_TEXT: ReceiptText(
        "The file has no readable text; search finds it by name only.",
        "If it is a scan, scan it again with a higher resolution.",
        is_imported=True,
    ),
    ReceiptCode.LOCKED: ReceiptText(
        "The file is locked with a password; search finds it by name only.",
        "Save it without a password and import it again.",
        is_imported=True,
    ),
    ReceiptCode.OLD_OFFICE: ReceiptText(
        "The text of files of Office before 2007 (.doc, .xls, .ppt) is not read; search finds the file"
        " by name only.",
        "Save it as .docx, .xlsx or .pptx, and import it again.",
        is_imported=True,
    ),
    ReceiptCode.NEEDS_EXTRA: ReceiptText(
        "The package pdpp-importers-extra reads this file; it is not installed.",
        "Install the package beside the server (docs/importing.md), and import the file again.",
    ),
    ReceiptCode.NEEDS_OFFICE: ReceiptText(
        "The text of Office files needs the extra office; search finds the file by name only.",
        "Install requirements-office.txt with pip, and import the export again.",
        is_imported=True,
    ),
    ReceiptCode.NEEDS_OUTLOOK: ReceiptText(
        "Data files of Outlook (.pst, .ost) need the extra outlook.",
        "Install extras/requirements-outlook.txt with pip, and import the file again.",
    ),
    ReceiptCode.NEEDS_OCR: ReceiptText(
        "The text of scans needs the extra ocr; search finds the file by name only.",
        "Install requirements-ocr.txt with pip, and import the file again.",
        is_imported=True,
    ),
    ReceiptCode.PICTURE_NEEDS_OCR: ReceiptText(
        "The text of pictures needs the extra ocr; the picture was not imported.",
        "Install requirements-ocr.txt with pip, and import the picture again.",
    ),
    ReceiptCode.PICTURES_NEED_OCR: ReceiptText(
        "The text of attached pictures needs the extra ocr; search finds them by name only.",
        "Install requirements-ocr.txt with pip, and import the export again.",
        is_imported=True,
    ),
    ReceiptCode.PICTURE_WITHOUT_TEXT: ReceiptText(
        "No text was recognized in this picture; it was not imported.",
        "If it has text, scan it again with a higher resolution.",
    ),
    ReceiptCode.PAGES_LEFT_OUT: ReceiptText(
        "The text of the first pages only was recognized, for their number or within the time.",
        "Divide the file into smaller ones, and import them.",
        is_imported=True,
    ),
    ReceiptCode.TEXT_RECOGNIZED: ReceiptText(
        "The text was recognized in pictures of its pages, and may have errors.",
        "Compare important words with the original.",
        is_imported=True,
    ),
    ReceiptCode.FILE_TOO_LARGE: ReceiptText(
        "The file is too large to store; only its name and size were imported.",
        "Keep the original file.",
        is_imported=True,
    ),
    ReceiptCode.FILE_MISSING: ReceiptText(
        "The export mentions this file but does not contain it.",
        "Export again with media included.",
        is_imported=True,
    ),
    ReceiptCode.NOT_STORED: ReceiptText(
        "The server rejected the record.",
        "Keep the original file, and report the error if it is valid.",
    ),
    ReceiptCode.ERASED: ReceiptText(
        "You erased this record; it was not imported again.", "You need not do anything."
    ),
}


_ONCE = frozenset((ReceiptCode.PICTURES_NEED_OCR,))
"""Codes of receipts that a run has once, for the first item: a chat has thousands of pictures."""


def without_repeated(issues: Iterable[Issue], reported: set[ReceiptCode]) -> Iterator[Issue]:
    """Yield the issues, those that a run has once only if not ``reported``, and add them to it."""
    for issue in issues:
        if issue.code not in reported:
            yield issue
        if issue.code in _ONCE:
            reported.add(issue.code)
