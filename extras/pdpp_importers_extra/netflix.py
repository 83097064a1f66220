"""Import the viewing history of Netflix: the list of titles by day, and that of the data request."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, time
from functools import partial

from importers.core.dates import (
    detect_date_order,
    local_to_utc,
    normalize,
    parse_date,
    to_utc,
)
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import Row, find_header, iter_rows
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.takeout import activity as records

SERVICE = "Netflix"
FIRST_YEAR = 2007
_NAME = re.compile(r"netflix|viewing", re.I)
_DURATION = re.compile(r"(\d{1,4}):(\d{2}):(\d{2})")


def _is_full(file: ExportFile) -> bool:
    return find_header(file, "Profile Name", "Start Time", "Duration", "Title") == 0


def _is_list(file: ExportFile) -> bool:
    """Return whether a table has titles and dates only, and its name says that it is Netflix's."""
    return find_header(file, "Title", "Date") == 0 and bool(
        _NAME.search(f"{file.export}/{file.name}")
    )


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".csv" and (_is_full(file) or _is_list(file))]


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Find the order of day and month in the lists. Raises ``ChoiceNeeded``."""
    lists = [file for file in files if not _is_full(file)]
    years = range(FIRST_YEAR, options.current_year + 2)
    if not lists:
        return options
    order = detect_date_order(_dates(lists), years=years, chosen=options.date_order)
    return replace(options, date_order=order)


def _dates(files: ExportFiles) -> Iterator[str]:
    for file in files:
        try:
            yield from (normalize(row.get("date", "")) for _, row in iter_rows(file))
        except UnreadableError:
            continue  # reading reports it


def _read(files: ExportFiles, options: Options) -> ExportItems:
    return iter_items(files, partial(_read_file, options=options))


def _read_file(file: ExportFile, *, options: Options) -> ExportItems:
    keys, is_full = ContentKeys("a_"), _is_full(file)
    for line, row in iter_rows(file):
        written = row.get("start time" if is_full else "date", "").strip()
        keys.start_group(written)
        key = keys.key("netflix", written, row.get("title"), row.get("profile name"))
        view = _full_view if is_full else _listed_view
        parse = partial(view, row, key, written, options)
        yield ExportItem(file.name, f"line {line:,}", sum(map(len, row.values())), parse)


def _title(row: Row) -> str:
    """Raises ``UnreadableError`` for a row without title, or with more cells than columns."""
    title = row.get("title", "").strip()
    if not title or row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row.get("", "")[:80])
    return title


def _full_view(row: Row, key: str, written: str, _options: Options) -> ParsedItem:
    """Parse a view of the data request, whose times are in UTC."""
    item, title = ParsedItem(), _title(row)
    moment = to_utc(f"{written} UTC")
    duration = _DURATION.fullmatch(row.get("duration", "").strip())
    seconds = (
        int(duration[1]) * 3600 + int(duration[2]) * 60 + int(duration[3]) if duration else None
    )
    extra = row.get("supplemental video type", "").strip()
    records.add_activity(
        item,
        key=key,
        service=SERVICE,
        kind="trailer" if extra else "watched",
        title=title,
        at=item.require_date(moment, written),
        duration_s=seconds,
        profile=row.get("profile name"),
        device=row.get("device type"),
        place=row.get("country"),
        text=extra.replace("_", " ").lower(),
    )
    return item


def _listed_view(row: Row, key: str, written: str, options: Options) -> ParsedItem:
    """Parse a title of the list, which has the day only."""
    item, title = ParsedItem(), _title(row)
    day = parse_date(written, options.date_order or "ymd")
    moment = local_to_utc(datetime.combine(day, time()), options.zone) if day else None
    records.add_activity(
        item,
        key=key,
        service=SERVICE,
        kind="watched",
        title=title,
        at=item.require_date(moment, written),
        is_day_only=True,
    )
    return item


NETFLIX = Importer(claim=_claim, read=_read, prepare=_prepare)
