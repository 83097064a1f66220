"""Import what was played, watched, bought and visited: Spotify, Netflix, Amazon, and browsers."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

from importers import takeout as records
from importers.core.dates import (
    detect_date_order,
    local_to_utc,
    normalize,
    parse_date,
    to_utc,
    unix_to_iso,
)
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, claim_each
from importers.core.readers import (
    Json,
    Row,
    claim_databases,
    databases,
    find_header,
    head_has,
    iter_nodes,
    iter_rows,
    json_integer,
    json_line,
    open_database,
    parse_node,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import one_line
from importers.takeout import Repeats

_KINDS = (
    ("listened", ("master_metadata_track_name", "trackName"), ("master_metadata_album_artist_name", "artistName")),
    ("podcast", ("episode_name", "episodeName"), ("episode_show_name", "podcastName")),
    ("audiobook", ("audiobook_chapter_title", "chapterName"), ("audiobook_title", "audiobookName")),
)  # fmt: skip
_URIS = ("spotify_track_uri", "spotify_episode_uri", "audiobook_chapter_uri", "audiobook_uri")


def _is_extended(file: ExportFile) -> bool:
    return head_has(file, b"ts", b"ms_played", b"master_metadata_track_name")


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix == ".json"
        and (_is_extended(file) or head_has(file, b"endTime", b"msPlayed"))
    ]


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    # Of equal keys in one export the first counts, and the extended history has more.
    return iter_items(sorted(files, key=_is_extended, reverse=True), _read_file)


def _read_file(file: ExportFile) -> ExportItems:
    repeats = Repeats()
    for number, (node, size, _) in enumerate(iter_nodes(file, ("item",)), 1):
        identity = tuple(map(str, _identity(node))) if isinstance(node, dict) else number
        parse = partial(parse_node, node, partial(_play, number=repeats.number(identity)))
        yield ExportItem(file.name, f"entry {number:,}", size, parse)


def _identity(node: Json) -> tuple[Any, ...]:
    return (node.get("ts"), node.get("endTime"), _milliseconds(node), *_describe(node))


def _describe(node: Json) -> tuple[str, str | None, str | None]:
    """Return the kind, the title, and who made it. A private session may have neither."""
    for kind, titles, makers in _KINDS:
        if title := json_line(node, *titles):
            return kind, title, json_line(node, *makers)
    return "listened", None, None


def _milliseconds(node: Json) -> int | None:
    return json_integer(node, "ms_played" if "ms_played" in node else "msPlayed")


def _play(node: Json, *, number: int) -> ParsedItem:
    item = ParsedItem()
    kind, title, maker = _describe(node)
    written = node.get("ts") or node.get("endTime")
    if title is None and written is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    # Both histories are in UTC. That of the last year has no seconds.
    is_short = isinstance(written, str) and len(written) == 16
    moment = item.require_date(to_utc(f"{written}Z" if is_short else written), written)
    milliseconds = _milliseconds(node)
    repeat = [number] if number > 1 else []
    records.add_activity(
        item,
        key=records.key("spotify", (moment or "")[:16], title, maker, milliseconds, *repeat),
        service="Spotify",
        kind=kind,
        title=title,
        by=maker,
        collection=json_line(node, "master_metadata_album_album_name"),
        url=json_line(node, *_URIS),
        at=moment,
        duration_s=None if milliseconds is None else milliseconds / 1000,
        device=json_line(node, "platform"),
        place=json_line(node, "conn_country"),
    )
    return item


SPOTIFY = Importer(claim=_claim, read=_read)


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


def _read_file_netflix(file: ExportFile, *, options: Options) -> ExportItems:
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


NETFLIX = Importer(
    claim=claim_each(lambda file: file.suffix == ".csv" and (_is_full(file) or _is_list(file))),
    read=lambda files, options: iter_items(files, partial(_read_file_netflix, options=options)),
    prepare=_prepare,
)


_HEADER = ("Order ID", "Order Date", "ASIN", "Product Name", "Unit Price")
_MISSING = ("", "not available", "not applicable")
# A comma alone may be a decimal separator.
_AMOUNT = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+\.\d{1,4}|\d{1,12}(?:\.\d{1,4})?)")
_CURRENCY = re.compile(r"[A-Z]{3}")
_AMOUNTS = {
    "unit_price": ("unit price",),
    "tax": ("unit price tax",),
    "shipping": ("shipping charge",),
    "discount": ("total discounts",),
    "total": ("total owed", "total amount"),
}
_TEXTS = {
    "order_id": ("order id",),
    "title": ("product name",),
    "product_id": ("asin",),
    "status": ("order status",),
    "condition": ("product condition",),
    "seller": ("seller",),
    "website": ("website",),
}


def _read_file_amazon(file: ExportFile, *, keys: ContentKeys) -> ExportItems:
    for line, row in iter_rows(file):
        order = row.get("order id")
        keys.start_group(order)
        key = keys.key("amazon", order, row.get("asin"))
        size = sum(map(len, row.values()))
        yield ExportItem(file.name, f"line {line:,}", size, partial(_item, row, key))


def _cell(row: Row, names: tuple[str, ...]) -> str | None:
    values = (row.get(name, "").strip() for name in names)
    return next((value for value in values if value.lower() not in _MISSING), None)


def _item(row: Row, key: str) -> ParsedItem:
    if row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row[""][:80])
    item = ParsedItem()
    texts = {name: _cell(row, names) for name, names in _TEXTS.items()}
    if texts["order_id"] is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    ordered, shipped = _cell(row, ("order date",)), _cell(row, ("ship date",))
    currency = _cell(row, ("currency",))
    quantity = _cell(row, ("quantity", "original quantity"))
    data = {
        "id": key,
        "shop": "Amazon",
        "ordered_at": item.require_date(to_utc(ordered), ordered),
        "shipped_at": to_utc(shipped),
        "quantity": int(quantity) if quantity and re.fullmatch("[0-9]{1,9}", quantity) else None,
        "currency": currency if currency and _CURRENCY.fullmatch(currency) else None,
        **{name: one_line(value) if value else None for name, value in texts.items()},
        **{name: _amount(_cell(row, names)) for name, names in _AMOUNTS.items()},
    }
    item.records.append(ParsedRecord("items", data))
    return item


def _amount(written: str | None) -> float | None:
    """Raises ``UnreadableError`` for an amount whose decimal separator is not certain."""
    if written is None:
        return None
    bare = written.strip("'\" ")
    if not _AMOUNT.fullmatch(bare):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=written[:40])
    return float(Decimal(bare.replace(",", "")))


AMAZON = Importer(
    claim=claim_each(lambda file: file.suffix == ".csv" and find_header(file, *_HEADER) == 0),
    read=lambda files, _options: iter_items(
        files, partial(_read_file_amazon, keys=ContentKeys("o_"))
    ),
)


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


def _claim_browser(files: ExportFiles, *, browser: Browser) -> list[ExportFile]:
    return claim_databases(files, names=browser.names, tables=browser.tables)


def _read_browser(files: ExportFiles, _options: Options, *, browser: Browser) -> ExportItems:
    return iter_items(databases(files), partial(_read_file_browser, files=files, browser=browser))


def _read_file_browser(file: ExportFile, *, files: ExportFiles, browser: Browser) -> ExportItems:
    with open_database(file, files) as database:
        for number, row in enumerate(database.select(browser.visits), 1):
            size = database.size if number == 1 else 0
            parse = partial(_visit, row, browser)
            yield ExportItem(file.name, f"visit {number:,}", size, parse)


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
    claim=partial(_claim_browser, browser=CHROME_BROWSER),
    read=partial(_read_browser, browser=CHROME_BROWSER),
)
FIREFOX = Importer(
    claim=partial(_claim_browser, browser=FIREFOX_BROWSER),
    read=partial(_read_browser, browser=FIREFOX_BROWSER),
)
SAFARI = Importer(
    claim=partial(_claim_browser, browser=SAFARI_BROWSER),
    read=partial(_read_browser, browser=SAFARI_BROWSER),
)
