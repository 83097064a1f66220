"""Hold what an importer yields: parsed records, attachments, issues, and receipt codes with texts.

An importer first divides an export into items, which is cheap; parsing an item is not. A resumed
run therefore skips finished items quickly, and an error in one item affects that item only.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple


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
    BAD_AMOUNT = "bad_amount"
    NOT_A_BOOKING = "not_a_booking"
    NOT_BOOKED = "not_booked"
    DELETED = "deleted"
    UNSURE_CHARSET = "unsure_charset"
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
    NEEDS_OFFICE = "needs_office"
    FILE_TOO_LARGE = "file_too_large"
    FILE_MISSING = "file_missing"
    NOT_STORED = "not_stored"
    ERASED = "erased"


class ReceiptText(NamedTuple):
    """The texts of a receipt. ``is_imported``: the item was imported in spite of the issue."""

    problem: str
    next_step: str
    is_imported: bool = False


RECEIPT_TEXTS: dict[ReceiptCode, ReceiptText] = {
    ReceiptCode.NOT_RECOGNISED: ReceiptText(
        "No importer recognizes this file.",
        "If docs/importing.md lists its format, name the format with --as KIND.",
    ),
    ReceiptCode.CANNOT_OPEN: ReceiptText(
        "The file cannot be opened.", "Check that it exists and that the server may read it."
    ),
    ReceiptCode.DAMAGED: ReceiptText(
        "The file is damaged or incomplete; everything before the damage was imported.",
        "Download the export again and import it again.",
    ),
    ReceiptCode.EMPTY: ReceiptText("The file is empty.", "You need not do anything."),
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
    ReceiptCode.BAD_AMOUNT: ReceiptText(
        "The amount cannot be read exactly.", "Correct it by hand, and import the file again."
    ),
    ReceiptCode.NOT_A_BOOKING: ReceiptText(
        "The row has no date, so it is not a booking.", "Compare it with the totals of the import."
    ),
    ReceiptCode.NOT_BOOKED: ReceiptText(
        "The bank did not book this: it is pending, was declined or has no effect on the balance.",
        "Import a newer statement if it was booked later.",
    ),
    ReceiptCode.DELETED: ReceiptText(
        "The export says that this was deleted, and has no content of it.",
        "You need not do anything.",
    ),
    ReceiptCode.UNSURE_CHARSET: ReceiptText(
        "The text may be in a wrong charset; it was imported as the export has it.",
        "Compare it with the original.",
        is_imported=True,
    ),
    ReceiptCode.UNKNOWN_COLUMNS: ReceiptText(
        "This table does not look like a bank statement.",
        "If its rows are bookings, name the columns: --column date=NAME --column amount=NAME (or"
        " debit= and credit=).",
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
        "See the recurrence field for the rule.",
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
    ),
    ReceiptCode.TOO_MANY_OCCURRENCES: ReceiptText(
        "The event has too many occurrences; only the first and those closest to this year were"
        " imported.",
        "See the recurrence field for the rule, and docs/importing.md for the limits.",
        is_imported=True,
    ),
    ReceiptCode.OUTSIDE_WINDOW: ReceiptText(
        "Occurrences outside the imported years were skipped.",
        "See the recurrence field for the rule. Import again in a later year for later occurrences.",
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
        "Run text recognition on scanned pages before you export them.",
        is_imported=True,
    ),
    ReceiptCode.LOCKED: ReceiptText(
        "The file is locked with a password; search finds it by name only.",
        "Save it without a password and import it again.",
        is_imported=True,
    ),
    ReceiptCode.NEEDS_OFFICE: ReceiptText(
        "The text of Office files needs the extra office; search finds the file by name only.",
        "Install requirements-office.txt with pip, and import the export again.",
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


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """A record of a stream, with its key in ``data["id"]``.

    It updates the record with the same key of an earlier import. Of several with the same key in
    one export, the first counts. ``replaces`` are keys under which an earlier release stored it.
    """

    stream: str
    data: dict[str, Any]
    replaces: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem of an item. ``detail`` may quote a few characters of it, such as a bad date."""

    code: ReceiptCode
    detail: str = ""


@dataclass(slots=True)
class ParsedItem:
    """The records, files and issues of one item of an export."""

    records: list[ParsedRecord] = field(default_factory=list)
    files: list[ParsedFile] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    stale: list[StaleRecords] = field(default_factory=list)

    def add_issue(self, code: ReceiptCode, *, detail: str = "") -> None:
        self.issues.append(Issue(code, detail))


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


def issues_only(issues: Sequence[Issue]) -> Callable[[], ParsedItem]:
    """Return a parser for an item that has no records."""
    return lambda: ParsedItem(issues=list(issues))


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
