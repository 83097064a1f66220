"""Show the first rows of a table, and how its dates and amounts can be read."""

from itertools import islice

from importers.bank import amounts
from importers.bank.csv_columns import guess_columns
from importers.bank.csv_readings import AMOUNT_FIELDS, ReadingBuilder
from importers.bank.csv_table import CsvTable
from importers.core.dates import normalize, readings_by_order
from importers.core.export_files import ExportFile
from importers.core.importer import FileSample, Options
from importers.core.results import UnreadableError

MAX_ROWS = 5
MAX_COLUMNS = 60
NAME_MAX_CHARS = 200
CELL_MAX_CHARS = 60
_COMPARED_VALUES = 2_000


def sample_table(table: CsvTable, file: ExportFile, options: Options) -> FileSample:
    """Return the first rows, and the columns as they are read or, if unknown, as they are guessed."""
    try:
        columns = ReadingBuilder(table, file, options).columns()
    except UnreadableError:
        columns = guess_columns(table.header)
    dates = islice(table.column(columns.get("date")), _COMPARED_VALUES)
    written = [
        text
        for name in AMOUNT_FIELDS
        for text in islice(table.column(columns.get(name)), _COMPARED_VALUES)
    ]
    return FileSample(
        file=file.name,
        header=[name[:NAME_MAX_CHARS] for name in table.header[:MAX_COLUMNS]],
        rows=[
            [cell[:CELL_MAX_CHARS] for cell in cells[:MAX_COLUMNS]]
            for _, cells in table.rows[:MAX_ROWS]
        ],
        columns={name: table.header[index] for name, index in columns.items()},
        readings={
            "date_order": readings_by_order(map(normalize, dates)),
            "decimal": amounts.readings_by_separator(written),
        },
    )
