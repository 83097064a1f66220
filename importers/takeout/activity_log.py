"""Import My Activity, and the history, subscriptions and comments of YouTube, from Takeout.

Takeout has entries of My Activity as JSON or as pages (HTML); both become the same records.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

from importers.core.dates import parse_written_moment, require_moment, to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    Json,
    head_has,
    iter_nodes,
    json_line,
    json_objects,
    json_text,
    parse_node,
)
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, html_to_text, one_line, strip_tags
from importers.takeout import activity_records as records
from importers.takeout import youtube_tables
from importers.takeout.activity_records import Repeats

_VERBS = {
    "Searched for": "searched", "Watched": "watched", "Viewed": "viewed", "Visited": "visited",
    "Listened to": "listened", "Used": "used", "Said": "said", "Prompted": "prompted", "Asked": "asked",
    "Liked": "liked", "Disliked": "disliked", "Saved": "saved", "Subscribed to": "subscribed",
    "Directions to": "directions", "Read": "read", "Opened": "opened", "Played": "played",
}  # fmt: skip
"""Verbs that begin an English title. Entries in other languages are known by their address."""
_VERB = re.compile(rf"({'|'.join(_VERBS)})\s+(?=\S)")
_VIDEO_PATHS = ("/watch", "/shorts/", "/live/", "/embed/")
_YOUTUBE = ("youtube.com", "youtu.be")
_SEARCH_PARAMETERS = ("search_query", "q", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry; ``number`` counts equal entries. ``link_text`` is the text of its first link."""

    service: str
    title: str
    url: str | None
    at: str | None
    by: str | None = None
    place: str | None = None
    text: str = ""
    is_advertisement: bool = False
    link_text: str | None = None
    number: int = 1


def add_entry(item: ParsedItem, entry: Entry) -> None:
    kind, title = _describe(entry)
    records.add_activity(
        item,
        key=_key(entry),
        service=entry.service,
        kind="advertisement" if entry.is_advertisement else kind,
        title=title,
        by=entry.by,
        url=entry.url,
        at=entry.at,
        place=entry.place,
        text=entry.text,
    )


def _key(entry: Entry) -> str:
    """Return the same key for an entry in JSON and on a page, which has no fractions of a second.

    The name of the service depends on the language, so it is no part of it.
    """
    identity = re.sub(r"^https?://", "", entry.url or "") or entry.title
    second = (entry.at or "")[:19]
    return records.key("google", second, identity, *([entry.number] if entry.number > 1 else []))


def _describe(entry: Entry) -> tuple[str, str]:
    """Return the kind and the title without its verb."""
    verb = _VERB.match(entry.title)
    bare = entry.link_text or (entry.title[verb.end() :] if verb else entry.title)
    kind, query = _by_address(entry)
    if query:
        return kind, query
    return kind or (_VERBS[verb[1]] if verb else "activity"), bare


def _by_address(entry: Entry) -> tuple[str, str | None]:
    """Return the kind that the address shows, or an empty text, and the words of a search."""
    try:
        address = urlsplit(entry.url or "")
        host, parameters = (
            (address.hostname or "").lower(),
            parse_qs(address.query, max_num_fields=50),
        )
    except ValueError:
        return "", None
    words = next((parameters[name][0] for name in _SEARCH_PARAMETERS if name in parameters), None)
    is_youtube = host.endswith(_YOUTUBE)
    if is_youtube and (address.path.startswith(_VIDEO_PATHS) or host.endswith("youtu.be")):
        return ("listened" if "music" in host else "watched"), None
    is_search = address.path.startswith("/results" if is_youtube else ("/search", "/maps/search"))
    if words and is_search and (is_youtube or ".google." in f".{host}"):
        return "searched", words
    return "", None


READ_SIZE = 256 * 1024
ENTRY_MAX_BYTES = 2 * 1024 * 1024
STYLE_MAX_BYTES = 512 * 1024
_ENTRY = b'<div class="outer-cell'
_HEADER = re.compile(r"<p class=\"mdl-typography--title\">(.*?)<", re.S)
_BODY = re.compile(r"<div class=\"content-cell[^\"]*body-1\">(.*?)</div>", re.S)
_CAPTION = re.compile(r"<div class=\"content-cell[^\"]*caption\">(.*)", re.S)
_BREAK = re.compile(r"<br\s*/?>", re.I)
_LINK = re.compile(r"<a\s[^<>]*?href=\"([^\"]*)\"[^<>]*>(.*?)</a>", re.S | re.I)
_TAG = re.compile(r"<[^<>]*>")
_CLOCK = re.compile(r"\d[:.]\d{2}[:.]\d{2}(?!\d)")
_MOMENT_MAX_CHARS = 60


def is_page(file: ExportFile) -> bool:
    """Return whether a page has entries; the styles before them may be long."""
    if file.suffix not in (".html", ".htm") or b"mdl-" not in file.head:
        return False
    try:
        with file.open() as stream:
            return _ENTRY in stream.read(STYLE_MAX_BYTES)
    except UnreadableError:
        return False


def read(file: ExportFile, *, zone: tzinfo) -> ExportItems:
    repeats = Repeats()
    for number, entry in enumerate(_entries(file), 1):
        repeat = repeats.number(sha256(entry).digest())
        parse = partial(_parse_page, entry, zone=zone, number=repeat)
        yield ExportItem(file.name, f"entry {number:,}", len(entry), parse)


def _entries(file: ExportFile) -> Iterator[bytes]:
    """Yield each entry. Raises ``UnreadableError`` at the end of a page that is cut off."""
    buffer, is_known = b"", False
    with file.open() as stream:
        while block := stream.read(READ_SIZE):
            *complete, buffer = (buffer + block).split(_ENTRY)
            yield from complete if is_known else complete[1:]
            is_known = is_known or bool(complete)
            if len(buffer) > ENTRY_MAX_BYTES:
                raise UnreadableError(ReceiptCode.TOO_LARGE)
    if not is_known:
        raise UnreadableError(ReceiptCode.MALFORMED)
    if b"</body" in buffer or b"</html" in buffer:
        yield buffer
    else:
        raise UnreadableError(ReceiptCode.DAMAGED, detail="the page is cut off")


def _parse_page(content: bytes, *, zone: tzinfo, number: int) -> ParsedItem:
    source = decode(content)
    header, body = _HEADER.search(source), _BODY.search(source)
    if body is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    lines = [line for line in _BREAK.split(body[1]) if line.strip()]
    at = next((at for at, line in enumerate(lines) if at and _is_moment(line)), None)
    if not lines or at is None:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="an entry without a time")
    item = ParsedItem()
    moment = parse_written_moment(_plain(lines[at]), zone, item)
    link = _LINK.search(lines[0])
    caption = _CAPTION.search(source)
    add_entry(
        item,
        Entry(
            service=(_plain(header[1]) if header else "") or "Google",
            title=_plain(lines[0]),
            url=html.unescape(link[1]).strip() or None if link else None,
            at=moment,
            by=_plain(lines[1]) or None if at > 1 else None,
            place=_place(caption[1]) if caption else None,
            text="\n".join([*map(_plain, lines[2:at]), strip_tags("<br>".join(lines[at + 1 :]))]),
            is_advertisement=caption is not None and "Google Ads" in caption[1],
            link_text=_plain(link[2]) or None if link else None,
            number=number,
        ),
    )
    return item


def _is_moment(line: str) -> bool:
    return "<a" not in line and len(line) <= _MOMENT_MAX_CHARS + 20 and bool(_CLOCK.search(line))


def _plain(source: str) -> str:
    return one_line(html.unescape(_TAG.sub("", source)))


def _place(caption: str) -> str | None:
    """Return the line that links to a map, without what follows the link."""
    for line in _BREAK.split(caption):
        if (link := _LINK.search(line)) and "/maps" in link[1]:
            return _plain(line)
    return None


def _is_json(file: ExportFile) -> bool:
    return (
        file.suffix == ".json"
        and head_has(file, b"header", b"title", b"time")
        and (b'"products"' in file.head or b'"activityControls"' in file.head)
    )


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file for file in files if _is_json(file) or is_page(file) or youtube_tables.find_table(file)
    ]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    yield from iter_items([file for file in files if file.suffix == ".csv"], youtube_tables.read)
    yield from iter_items([file for file in files if file.suffix == ".json"], _read_json)
    # Last, since times of pages are less exact: of equal keys in one export, the first counts.
    pages = [file for file in files if file.suffix not in (".csv", ".json")]
    yield from iter_items(pages, partial(read, zone=options.zone))


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


GOOGLE_ACTIVITY = Importer(claim=_claim, read=_read)
