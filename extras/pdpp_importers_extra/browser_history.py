"""Import the browsing history of Chrome and its relatives, Firefox and Safari."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from importers.core.dates import unix_to_iso
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import Database, claim_databases, databases, open_database
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.takeout import activity as records

URL_MAX_CHARS = 2_000
_WINDOWS_EPOCH = 11_644_473_600
_APPLE_EPOCH = 978_307_200
_MAX_MILLISECONDS = 100_000_000_000_000
"""Firefox for Android counts milliseconds; as microseconds this would be in 1973."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A kind of database; ``to_unix`` converts its time to seconds since 1970."""

    service: str
    names: tuple[str, ...]
    tables: tuple[str, ...]
    visits: str
    to_unix: Callable[[float], float]


CHROME_BROWSER = Browser(
    "chrome",
    ("History",),
    ("CREATE TABLE urls", "CREATE TABLE visits"),
    "SELECT u.url, u.title, v.visit_time AS time FROM visits v JOIN urls u ON u.id = v.url"
    " ORDER BY v.visit_time, v.id",
    lambda time: time / 1_000_000 - _WINDOWS_EPOCH,
)
FIREFOX_BROWSER = Browser(
    "firefox",
    ("places.sqlite",),
    ("CREATE TABLE moz_places", "CREATE TABLE moz_historyvisits"),
    "SELECT p.url, p.title, v.visit_date AS time FROM moz_historyvisits v"
    " JOIN moz_places p ON p.id = v.place_id ORDER BY v.visit_date, v.id",
    lambda time: time / (1_000_000 if time > _MAX_MILLISECONDS else 1_000),
)
SAFARI_BROWSER = Browser(
    "safari",
    ("History.db",),
    ("CREATE TABLE history_items", "CREATE TABLE history_visits"),
    "SELECT i.url, v.title, v.visit_time AS time FROM history_visits v"
    " JOIN history_items i ON i.id = v.history_item ORDER BY v.visit_time, v.id",
    lambda time: time + _APPLE_EPOCH,
)


def _claim(files: ExportFiles, *, browser: Browser) -> list[ExportFile]:
    return claim_databases(files, names=browser.names, tables=browser.tables)


def _read(files: ExportFiles, _options: Options, *, browser: Browser) -> ExportItems:
    return iter_items(databases(files), partial(_read_file, files=files, browser=browser))


def _read_file(file: ExportFile, *, files: ExportFiles, browser: Browser) -> ExportItems:
    with open_database(file, files) as database:
        for number, row in enumerate(_visits(database, browser), 1):
            size = database.size if number == 1 else 0
            parse = partial(_visit, row, browser)
            yield ExportItem(file.name, f"visit {number:,}", size, parse)


def _visits(database: Database, browser: Browser) -> Iterator[sqlite3.Row]:
    yield from database.select(browser.visits)


def _visit(row: sqlite3.Row, browser: Browser) -> ParsedItem:
    item, url, time = ParsedItem(), row["url"], row["time"]
    if not isinstance(url, str) or not url:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    at = unix_to_iso(browser.to_unix(time)) if isinstance(time, int | float) and time else None
    item.require_date(at, time)
    if len(url) > URL_MAX_CHARS:
        item.add_issue(ReceiptCode.TEXT_CUT, detail=url[:80])
    records.add_activity(
        item,
        key=records.key(browser.service, url, time),
        service=browser.service,
        kind="visit",
        title=row["title"] if isinstance(row["title"], str) else None,
        url=url[:URL_MAX_CHARS],
        at=at,
    )
    return item


CHROME = Importer(
    claim=partial(_claim, browser=CHROME_BROWSER), read=partial(_read, browser=CHROME_BROWSER)
)
FIREFOX = Importer(
    claim=partial(_claim, browser=FIREFOX_BROWSER), read=partial(_read, browser=FIREFOX_BROWSER)
)
SAFARI = Importer(
    claim=partial(_claim, browser=SAFARI_BROWSER), read=partial(_read, browser=SAFARI_BROWSER)
)
