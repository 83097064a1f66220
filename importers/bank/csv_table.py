"""Read a CSV file as a table: delimiter, lines before the header, header and rows."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, takewhile
from typing import Self

from importers.bank.amounts import parse_written
from importers.bank.profiles import find_layout, has_money, plain_name, suggest_columns, words
from importers.bank.records import number_above
from importers.core.dates import is_date_like
from importers.core.export_files import ExportFile
from importers.core.results import ReceiptCode, UnreadableError
from importers.core.text import decode

FILE_MAX_BYTES = 16 * 1024 * 1024
MAX_ROWS = 500_000
MAX_LINES_PER_ROW = 50
LINE_MAX_CHARS = 100_000
_DELIMITERS = (";", ",", "\t", "|")
_HEAD_LINES = 40
_FOREIGN = re.compile(r"^:\d\d[A-Z]?:|<\?xml|<OFX>|<Document|OFXHEADER:|!Type:", re.IGNORECASE)
"""The start of a statement that is no table."""
_MIN_NAMES = 3
_MIN_BOOKING_CELLS = 4
_HEADER_MAX_DIGITS = 4
"""Such as in "Reference 1"; a booking has more in its date and amount."""

Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The lines before the header, the header, and the rows, each with its line number.

    A table without a header has the numbers of its columns as one. ``rest`` are the lines from the
    header of another table on, and lines that are no rows.
    """

    preamble: list[list[str]]
    header: tuple[str, ...]
    rows: list[Row]
    rest: list[Row] = field(default_factory=list)

    @property
    def has_header(self) -> bool:
        return self.header != _numbers(len(self.header))

    @property
    def name(self) -> str:
        """The name under which answers for tables with this header are remembered.

        Without a header it covers which columns have dates, amounts and texts.
        """
        names = [plain_name(name)[0] for name in self.header]
        if not self.has_header:
            names = ["", *(_kind(cell) for cell in self.rows[0][1])] if self.rows else [""]
        digest = sha256("\0".join(names).encode("utf-8", "replace"))
        return f"csv {digest.hexdigest()[:20]}"

    def column(self, index: int | None) -> Iterator[str]:
        if index is not None:
            rows = (row for _, row in self.rows if len(row) > index and tuple(row) != self.header)
            yield from (row[index].strip() for row in rows)


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, count + 1))


def _kind(cell: str) -> str:
    is_date = is_date_like(cell)
    return "date" if is_date else "amount" if parse_written(cell) else "text" if cell else ""


def read_table(file: ExportFile) -> CsvTable:
    """Parse a file. Raises ``UnreadableError`` when it has no header line and no bookings.

    A table ends before the header of another one, and where the lines above its own header name
    another account.
    """
    text = decode(file.read(max_bytes=FILE_MAX_BYTES)).replace("\0", "")
    delimiter = _find_delimiter(text)
    rows = list(islice(_nonempty_rows(text, delimiter), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise UnreadableError(ReceiptCode.TOO_LARGE)
    at = _find_header([row for _, row in rows[:_HEAD_LINES]])
    if at is None:
        return _without_header(rows)
    header, found = tuple(rows[at][1]), rows[at + 1 :]
    preamble = [row for _, row in rows[:at]]
    number = number_above(preamble)

    def is_other(at: int, row: list[str]) -> bool:
        if tuple(row) != header:
            return _is_other_header(row, header)
        other = number_above(_lines_above(found[:at], header))
        return other is not None and other != number

    end = next((at for at, (_, row) in enumerate(found) if is_other(at, row)), len(found))
    while 0 < end < len(found) and len(found[end - 1][1]) != len(header):
        end -= 1  # the lines above the other header
    table_rows = [each for each in found[:end] if len(each[1]) > 1]
    rest = [each for each in found[:end] if len(each[1]) == 1] + found[end:]
    rest += ((line, row) for line, row in rows[:at] if _is_booking(row, _MIN_BOOKING_CELLS))
    return CsvTable(preamble, header, table_rows, sorted(rest))


def _without_header(rows: list[Row]) -> CsvTable:
    """Return a table whose first line is a booking already. Raises ``UnreadableError``."""
    first = rows[0][1] if rows else []
    if not _is_booking(first, _MIN_NAMES):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=", ".join(first)[:200])
    width = max(len(row) for _, row in rows if _is_booking(row, _MIN_NAMES))
    return CsvTable([], _numbers(width), rows)


def _is_booking(row: list[str], cells: int) -> bool:
    kinds = [_kind(cell) for cell in row if cell]
    return len(kinds) >= cells and {"date", "amount"} <= set(kinds)


def _lines_above(rows: list[Row], header: tuple[str, ...]) -> list[list[str]]:
    """Return the lines between the last booking and a repeated header."""
    date = suggest_columns(header).get("date", 0)
    cells = (row for _, row in reversed(rows[-_HEAD_LINES:]))
    above = takewhile(lambda row: len(row) <= date or not is_date_like(row[date]), cells)
    return list(above)[::-1]


def _is_other_header(row: list[str], header: tuple[str, ...]) -> bool:
    """Return whether a row is the header of another table, also behind the end of its last cell."""
    if _FOREIGN.search(row[0]) or _FOREIGN.search(row[-1]):
        return True
    parts = [row[len(header) - 1 :]]
    parts += [row[-1].split(each) for each in _DELIMITERS if row[-1].count(each) > 1]
    if sum(map(str.isdigit, "".join(row))) <= _HEADER_MAX_DIGITS:
        parts += [row, *(part.split(each) for part in row for each in _DELIMITERS if each in part)]
    return any(_has_names(part) for part in parts if len(part) > 1)


def _has_names(row: list[str]) -> bool:
    """Return whether a row has names of columns, of which the first may follow the end of a cell."""
    known = suggest_columns(tuple(row))
    is_date_first = plain_name(row[0])[0].endswith(tuple(words().columns["date"]))
    money = bool(known.keys() & {"amount", "debit", "credit"})
    return len(known) >= _MIN_NAMES or (("date" in known or is_date_first) and money)


def _find_header(rows: list[list[str]]) -> int | None:
    """Return the index of the first row with a known header, known names, or likely names."""
    for index, names in enumerate(rows):
        if _is_header(names):
            return index
    if rows and _is_booking(rows[0], _MIN_NAMES):
        return None
    width = max((len(row) for row in rows), default=0)
    return next(
        (i for i, row in enumerate(rows) if len(row) == width and _is_likely_header(row)), None
    )


def _is_header(row: list[str]) -> bool:
    return has_money(suggest_columns(tuple(row))) or find_layout(tuple(row)) is not None


def _is_likely_header(row: list[str]) -> bool:
    """Return whether the row has several names, and no amount or date."""
    names = [name for name in row if name]
    return len(names) >= 2 and not any(any(c.isdigit() for c in name[:2]) for name in names)


def _find_delimiter(text: str) -> str:
    """Return the delimiter that gives known column names, or else the most frequent one."""
    head = "".join(islice(io.StringIO(text), _HEAD_LINES))
    if head[:5].lower().startswith("sep=") and len(head) > 4:
        return head[4]

    def rank(delimiter: str) -> tuple[int, int, int]:
        rows = [row for _, row in islice(_nonempty_rows(head, delimiter), _HEAD_LINES)]
        known = max((len(suggest_columns(tuple(row))) for row in rows), default=0)
        first = next((at for at, row in enumerate(rows) if _is_header(row)), len(rows))
        return len(rows) - first, known if known > 1 else 0, max(map(len, rows), default=0)

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
