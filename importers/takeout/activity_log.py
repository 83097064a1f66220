"""Import My Activity, and the history, subscriptions and comments of YouTube, from Takeout."""

from collections.abc import Iterator
from functools import partial

from importers.activity.records import Repeats
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.json_nodes import (
    Json,
    head_has,
    iter_nodes,
    json_line,
    json_objects,
    json_text,
    parse_node,
)
from importers.core.moments import require_moment, to_utc
from importers.core.results import ExportItem, ExportItems, ParsedItem
from importers.core.text import html_to_text
from importers.takeout import activity_pages, youtube_tables
from importers.takeout.activity_entries import Entry, add_entry


def _is_json(file: ExportFile) -> bool:
    return (
        file.suffix == ".json"
        and head_has(file, b"header", b"title", b"time")
        and (b'"products"' in file.head or b'"activityControls"' in file.head)
    )


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if _is_json(file) or activity_pages.is_page(file) or youtube_tables.find_table(file)
    ]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    yield from iter_items([file for file in files if file.suffix == ".csv"], youtube_tables.read)
    yield from iter_items([file for file in files if file.suffix == ".json"], _read_json)
    # Last, since times of pages are less exact: of equal keys in one export, the first counts.
    pages = [file for file in files if file.suffix not in (".csv", ".json")]
    yield from iter_items(pages, partial(activity_pages.read, zone=options.zone))


def _read_json(file: ExportFile) -> ExportItems:
    repeats = Repeats()
    for number, (node, size, _) in enumerate(iter_nodes(file, ("item",)), 1):
        identity = (
            (node.get("time"), str(node.get("titleUrl")), str(node.get("title")))
            if isinstance(node, dict)
            else number
        )
        parse = partial(parse_node, node, partial(_parse, number=repeats.number(identity)))
        yield ExportItem(file.name, f"entry {number:,}", size, parse)


def _parse(node: Json, *, number: int) -> ParsedItem:
    item = ParsedItem()
    subtitles = json_objects(node, "subtitles")
    details = [name for each in json_objects(node, "details") if (name := json_line(each, "name"))]
    places = json_objects(node, "locationInfos")
    moment = require_moment(to_utc(node.get("time")), item, written=node.get("time"))
    add_entry(
        item,
        Entry(
            service=json_line(node, "header") or _product(node) or "Google",
            title=json_line(node, "title") or "",
            url=json_line(node, "titleUrl"),
            at=moment,
            by=json_line(subtitles[0], "name") if subtitles else None,
            place=json_line(places[0], "name") if places else None,
            text="\n".join(_texts(node, subtitles[1:], details)),
            is_advertisement=any("Google Ads" in name for name in details),
            number=number,
        ),
    )
    return item


def _product(node: Json) -> str | None:
    products = node.get("products")
    return str(products[0]) if isinstance(products, list) and products else None


def _texts(node: Json, subtitles: list[Json], details: list[str]) -> Iterator[str]:
    """Yield what the entry shows below its title, such as the answer of an assistant."""
    yield from filter(None, (json_text(node, "description"),))
    yield from filter(None, (json_line(each, "name") for each in subtitles))
    yield from details
    for each in json_objects(node, "safeHtmlItem"):
        yield html_to_text(json_text(each, "html"))


GOOGLE_ACTIVITY = Importer(
    claim=_claim,
    read=_read,
)
