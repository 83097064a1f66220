"""What a reader makes of an export: pieces, and of each piece rows, files and remarks.

A reader first cuts an export into pieces, which is cheap, and says how to make something of each,
which is not. So a run that goes on after an interruption passes over what is done at the speed of
cutting, and whatever goes wrong in one piece concerns that piece alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple


class Code(StrEnum):
    # The file or the archive
    NOT_RECOGNISED = "not_recognised"
    CANNOT_OPEN = "cannot_open"
    DAMAGED = "damaged"
    EMPTY = "empty"
    ENCRYPTED = "encrypted"
    UNSAFE_NAME = "unsafe_name"
    ZIP_BOMB = "zip_bomb"
    PACKED_OTHERWISE = "packed_otherwise"
    NO_FILE = "no_file"
    # One item of it
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NO_IDENTITY = "no_identity"
    BAD_DATE = "bad_date"
    BAD_AMOUNT = "bad_amount"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    BAD_RECURRENCE = "bad_recurrence"
    UNKNOWN_TIME_ZONE = "unknown_time_zone"
    TOO_MANY_OCCURRENCES = "too_many_occurrences"
    TEXT_CUT = "text_cut"
    NO_TEXT = "no_text"
    FILE_TOO_LARGE = "file_too_large"
    FILE_MISSING = "file_missing"
    NOT_STORED = "not_stored"
    ERASED = "erased"


class Meaning(NamedTuple):
    """``kept``: the item is stored all the same, without what the sentence is about."""

    sentence: str
    next_step: str
    kept: bool = False


MEANINGS: dict[Code, Meaning] = {
    Code.NOT_RECOGNISED: Meaning(
        "No importer knows what this file is.",
        "If it is one of the kinds of docs/importing.md, name it with --as KIND.",
    ),
    Code.CANNOT_OPEN: Meaning(
        "The file cannot be opened.", "See that it exists and that the server may read it."
    ),
    Code.DAMAGED: Meaning(
        "The file ends too early or is damaged; what came before is imported.",
        "Download the export again and import it once more.",
    ),
    Code.EMPTY: Meaning("There is nothing in it.", "Nothing needs to be done."),
    Code.ENCRYPTED: Meaning(
        "It is locked with a password.", "Unpack it yourself and import the unpacked folder."
    ),
    Code.UNSAFE_NAME: Meaning(
        "Its name leads out of the archive, which no honest export does; it was not read.",
        "Do not trust where this archive comes from.",
    ),
    Code.ZIP_BOMB: Meaning(
        "It would unpack to far more than any export does; it was not read.",
        "If you trust it, unpack it yourself and import the folder.",
    ),
    Code.PACKED_OTHERWISE: Meaning(
        "It is packed in a way that is not read here.",
        "Unpack it yourself and import the unpacked folder.",
    ),
    Code.NO_FILE: Meaning(
        "It is a link, a pipe or a device and not a file.",
        "Import what it leads to, if that belongs to the export.",
    ),
    Code.TOO_LARGE: Meaning(
        "It is larger than an item may be.", "Nothing else is affected; keep the original file."
    ),
    Code.UNREADABLE: Meaning(
        "No sense could be made of it.", "Keep the original file, and report it if it is in order."
    ),
    Code.MALFORMED: Meaning(
        "It is not written as its format demands.", "Export it again, or correct it by hand."
    ),
    Code.NO_IDENTITY: Meaning("It has nothing to know it by.", "Correct it by hand."),
    Code.BAD_DATE: Meaning(
        "Its date does not exist or cannot be read, so it has none.",
        "Search finds it by its words; time filters do not.",
        kept=True,
    ),
    Code.BAD_AMOUNT: Meaning("Its amount is not a number.", "Correct it by hand."),
    Code.NESTED_TOO_DEEPLY: Meaning(
        "Its parts are nested too deeply; the innermost were left out.",
        "Nothing needs to be done: such mail is made to do harm.",
        kept=True,
    ),
    Code.BAD_RECURRENCE: Meaning(
        "Its rule of repetition cannot be followed, so only its first time is there.",
        "See the recurrence field for the rule as it stands.",
        kept=True,
    ),
    Code.UNKNOWN_TIME_ZONE: Meaning(
        "Its time zone is unknown, so its times were read in the zone of this import.",
        "Say which zone that is with --timezone.",
        kept=True,
    ),
    Code.TOO_MANY_OCCURRENCES: Meaning(
        "It repeats more often than is stored; the earliest are there.",
        "See the recurrence field for the rule as it stands.",
        kept=True,
    ),
    Code.TEXT_CUT: Meaning(
        "Its text is longer than is searched; the rest was cut off.",
        "The original is in the export.",
        kept=True,
    ),
    Code.NO_TEXT: Meaning(
        "No text could be read from it; it is found by its name only.",
        "Scanned pages need text recognition before they are exported.",
        kept=True,
    ),
    Code.FILE_TOO_LARGE: Meaning(
        "The file is too large to keep; its name and size are there.",
        "Keep the original file.",
        kept=True,
    ),
    Code.FILE_MISSING: Meaning(
        "The export names this file but does not hold it.",
        "Export again with media included.",
        kept=True,
    ),
    Code.NOT_STORED: Meaning(
        "The store refused it.", "Keep the original file, and report it if it is in order."
    ),
    Code.ERASED: Meaning(
        "You erased this record, and it stays erased.", "Nothing needs to be done."
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a stream; its key is ``data["id"]``. Rows of earlier exports with the same key
    are brought up to date; of several in one export the first counts."""

    stream: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class File:
    """Bytes that the row of this stream and key names in its ``blob_ref``."""

    stream: str
    key: str
    blob_id: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be said of a piece. ``detail`` may show a few characters of the owner's own
    file, such as a date that is none."""

    code: Code
    detail: str = ""


@dataclass(slots=True)
class Item:
    """What became of one piece."""

    rows: list[Row] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def remark(self, code: Code, *, detail: str = "") -> None:
        self.remarks.append(Remark(code, detail))


@dataclass(frozen=True, slots=True)
class Piece:
    """``place`` says where in ``file`` a person finds it, ``size`` how many bytes it took."""

    file: str
    place: str
    size: int
    make: Callable[[], Item]


class UnreadableError(Exception):
    """The piece in hand, or the rest of the file in hand, cannot be read."""

    def __init__(self, code: Code, *, detail: str = "") -> None:
        super().__init__(code)
        self.remark = Remark(code, detail)


def said(remarks: Sequence[Remark]) -> Callable[[], Item]:
    """A piece of which nothing can be made but remarks."""
    return lambda: Item(remarks=list(remarks))


Pieces = Iterator[Piece]


class Repeated:
    """Counts within one group, such as a minute or a file; ``begin`` forgets the last group."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._group: object = None
        self._counts: Counter[bytes] = Counter()

    def begin(self, group: object) -> None:
        if group != self._group:
            self._group = group
            self._counts.clear()

    def key(self, *parts: object) -> str:
        said = "\0".join(map(str, parts)).encode("utf-8", "replace")
        digest = sha256(said)
        self._counts[digest.digest()[:12]] += 1
        number = self._counts[digest.digest()[:12]]
        if number > 1:
            digest.update(b"\0%d" % number)
        return f"{self._prefix}{digest.hexdigest()[:28]}"
