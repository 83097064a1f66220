"""What a reader makes of an export: pieces, and of each piece rows, files and remarks.

A reader first cuts an export into pieces, which is cheap, and says how to make something of each,
which is not. So a run that goes on after an interruption passes over what is done at the speed of
cutting, and whatever goes wrong in one piece concerns that piece alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence.importing.codes import Code


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
