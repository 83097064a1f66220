"""Stream the rows of CSV files as dictionaries, in bounded memory."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from importers.core.export_files import ExportFile
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, replace_unstorable, to_utf8

DECODED_MAX_BYTES = 16 * 1024 * 1024
"""Larger files are read as UTF-8, line by line."""
LINE_MAX_CHARS = 1024 * 1024
_HEADER_MAX_LINES = 20
_DELIMITERS = ",;\t"

Row = dict[str, str]
ParseRow = Callable[[Row], ParsedItem]


def head_columns(file: ExportFile) -> list[list[str]]:
    """Return the cells of the first lines of a file."""
    lines = to_utf8(file.head).decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    return [_cells(line) for line in lines[:_HEADER_MAX_LINES]]


def find_header(file: ExportFile, *columns: str) -> int | None:
    """Return the number of the first line that has all these columns, counted from 0."""
    wanted = {column.lower() for column in columns}
    for number, cells in enumerate(head_columns(file)):
        if wanted <= {cell.strip().lower() for cell in cells}:
            return number
    return None


def _cells(line: str) -> list[str]:
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def iter_rows(file: ExportFile, *, header: int = 0) -> Iterator[tuple[int, Row]]:
    """Yield the line number and the cells of each row, by column name in lower case.

    Raises ``UnreadableError`` for a row that is too long, such as one with a quote that never ends.
    """
    with file.open() as stream:
        if file.size <= DECODED_MAX_BYTES:
            text: io.TextIOBase = io.StringIO(decode(stream.read(DECODED_MAX_BYTES)), newline="")
        else:
            text = io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
        lines = _lines(text)
        names_line = [line for _, line in zip(range(header + 1), lines, strict=False)]
        if len(names_line) <= header:
            return
        names = [name.strip().strip("\ufeff").lower() for name in _cells(names_line[header])]
        delimiter = max(_DELIMITERS, key=names_line[header].count)
        yield from _rows(lines, names, delimiter, first_line=header + 2)


def _lines(text: io.TextIOBase) -> Iterator[str]:
    while line := text.readline(LINE_MAX_CHARS):
        if len(line) >= LINE_MAX_CHARS:
            raise UnreadableError(ReceiptCode.TOO_LARGE)
        yield replace_unstorable(line)


def _rows(
    lines: Iterable[str], names: list[str], delimiter: str, *, first_line: int
) -> Iterator[tuple[int, Row]]:
    reader = csv.reader(lines, delimiter=delimiter)
    line = first_line
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, _row(names, cells)
            line = reader.line_num + first_line
    except csv.Error as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=f"line {line:,}: {error}"[:80]) from error


def _row(names: list[str], cells: list[str]) -> Row:
    """Return the cells by column; more cells than columns are under an empty name."""
    row = dict(zip(names, cells, strict=False))
    rest = "".join(cells[len(names) :]).strip()
    return row | {"": rest} if rest else row


def read_rows(file: ExportFile, parse: ParseRow, *, header: int = 0) -> ExportItems:
    """Yield an item for each row. Raises as ``iter_rows``."""
    for line, row in iter_rows(file, header=header):
        size = sum(map(len, row.values()))
        yield ExportItem(file.name, f"line {line:,}", size, partial(_parse_row, row, parse))


def _parse_row(row: Row, parse: ParseRow) -> ParsedItem:
    """Raises ``UnreadableError`` for a row with more cells than columns."""
    if row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row[""][:80])
    return parse(row)
