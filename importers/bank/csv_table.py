"""Read a CSV file as a table: delimiter, lines before the header, header and rows."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from importers.bank.csv_columns import guess_columns
from importers.core.export_files import ExportFile
from importers.core.results import ReceiptCode, UnreadableError
from importers.core.text import decode

FILE_MAX_BYTES = 16 * 1024 * 1024
MAX_ROWS = 500_000
MAX_LINES_PER_ROW = 50
LINE_MAX_CHARS = 100_000
_DELIMITERS = (";", ",", "\t", "|")
_HEAD_LINES = 40
_DIGIT = re.compile(r"\d")

Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The lines before the header, the header, and the rows, each with its line number.

    ``rest`` are the lines from the header of another table on.
    """

    preamble: list[list[str]]
    header: tuple[str, ...]
    rows: list[Row]
    rest: list[Row] = field(default_factory=list)

    def column(self, index: int | None) -> Iterator[str]:
        if index is not None:
            yield from (row[index].strip() for _, row in self.rows if len(row) > index)


def read_table(file: ExportFile) -> CsvTable:
    """Parse a file. Raises ``UnreadableError`` when it has no header line."""
    text = decode(file.read(max_bytes=FILE_MAX_BYTES)).replace("\0", "")
    delimiter = _find_delimiter(text)
    rows = list(islice(_nonempty_rows(text, delimiter), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise UnreadableError(ReceiptCode.TOO_LARGE)
    header_index = _find_header([row for _, row in rows[:_HEAD_LINES]])
    if header_index is None:
        first = ", ".join(rows[0][1]) if rows else ""
        raise UnreadableError(ReceiptCode.MALFORMED, detail=first[:200])
    header = tuple(rows[header_index][1])
    found = [(line, row) for line, row in rows[header_index + 1 :] if len(row) > 1]
    others = (i for i, (_, row) in enumerate(found) if _is_header(row) and tuple(row) != header)
    end = next(others, len(found))
    return CsvTable([row for _, row in rows[:header_index]], header, found[:end], found[end:])


def _find_delimiter(text: str) -> str:
    """Return the delimiter that gives known column names, or else the most frequent one."""
    head = "".join(islice(io.StringIO(text), _HEAD_LINES))
    if head[:5].lower().startswith("sep=") and len(head) > 4:
        return head[4]

    def rank(delimiter: str) -> tuple[int, int]:
        rows = [row for _, row in islice(_nonempty_rows(head, delimiter), _HEAD_LINES)]
        known = max((len(guess_columns(tuple(row))) for row in rows), default=0)
        return known if known > 1 else 0, max(map(len, rows), default=0)

    return max(_DELIMITERS, key=rank)


def _nonempty_rows(text: str, delimiter: str) -> Iterator[Row]:
    for line, row in _rows(text, delimiter):
        cells = [_cell(cell) for cell in row]
        if any(cells) and not (len(cells) == 1 and cells[0].lower().startswith("sep=")):
            yield line, cells


def _cell(text: str) -> str:
    """Return the content of a cell, also of ="0123", which keeps zeros in spreadsheets."""
    text = text.strip().strip("\ufeff")
    return text[2:-1] if text.startswith('="') and text.endswith('"') else text


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Yield each row with the number of its last line.

    A quotation mark that is not closed within MAX_LINES_PER_ROW, or within a cell, is taken
    literally; otherwise the row would swallow rows after it.
    """
    source, number = io.StringIO(text, newline=""), 0
    while True:
        position, row_lines = source.tell(), _RowLines(source)
        reader = csv.reader(row_lines, delimiter=delimiter, strict=True)
        try:
            row = next(reader, None)
        except csv.Error:
            row = []
        if row is None:
            return
        if row_lines.is_exhausted or not row:
            source.seek(position)
            row = _single_line(source.readline()[:LINE_MAX_CHARS], delimiter)
            number += 1
        else:
            number += reader.line_num
        yield number, row


def _single_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line whose quotation marks are wrong."""
    if line.count('"') % 2 == 0:
        with contextlib.suppress(csv.Error):
            return next(csv.reader([line], delimiter=delimiter), [])
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


class _RowLines:
    """Limits a row to MAX_LINES_PER_ROW. ``is_exhausted``: the row continues after them."""

    def __init__(self, source: io.StringIO) -> None:
        self._source = source
        self._remaining = MAX_LINES_PER_ROW
        self.is_exhausted = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._source.readline() if self._remaining else ""
        self.is_exhausted = not line and self._remaining < MAX_LINES_PER_ROW
        self._remaining -= 1
        if not line:
            raise StopIteration
        return line


def _find_header(rows: list[list[str]]) -> int | None:
    """Return the index of the first row with known column names, or of the first likely header."""
    for index, names in enumerate(rows):
        if _has_known_names(names):
            return index
    width = max((len(row) for row in rows), default=0)
    return next(
        (i for i, row in enumerate(rows) if len(row) == width and _is_likely_header(row)), None
    )


def _has_known_names(row: list[str]) -> bool:
    known = guess_columns(tuple(row)).keys()
    return "date" in known and bool(known & {"amount", "debit", "credit"})


def _is_header(row: list[str]) -> bool:
    return not _DIGIT.search("".join(row)) and _has_known_names(row)


def _is_likely_header(row: list[str]) -> bool:
    """Return whether the row has several names, and no amount or date."""
    names = [name for name in row if name]
    return len(names) >= 2 and not any(any(c.isdigit() for c in name[:2]) for name in names)
