"""Import My Activity, YouTube's history, subscriptions and comments, and Google Keep, from Takeout.

Takeout has entries of My Activity as JSON or as pages (HTML); both become the same records.
"""

import html
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from importers import notes as records
from importers.core.dates import parse_written_moment, to_utc, unix_to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, claim_each
from importers.core.readers import (
    Json,
    Row,
    find_header,
    head_has,
    iter_nodes,
    json_line,
    json_objects,
    json_text,
    parse_node,
    read_rows,
)
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    record_key,
)
from importers.core.text import decode, html_to_text, one_line, strip_tags

_FIELDS = ("title", "by", "collection", "url", "at", "is_day_only", "duration_s", "profile", "device",
           "place", "in_reply_to", "text")  # fmt: skip
_LINES = ("title", "by", "collection", "url", "profile", "device", "place")
key = partial(record_key, "a_")
"""Return the key of an activity of a service, by what it is."""
YOUTUBE = "YouTube"
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


class Repeats:
    """Numbers items that are equal to the one before them, and have no id."""

    def __init__(self) -> None:
        self._identity: Hashable = None
        self._number = 0

    def number(self, identity: Hashable) -> int:
        """Return 1 for an item that differs from the one before it."""
        self._number = self._number + 1 if identity == self._identity else 1
        self._identity = identity
        return self._number


def add_activity(item: ParsedItem, *, key: str, service: str, kind: str, **fields: Any) -> None:
    """Add an activity; fields that are not given are null."""
    data = dict.fromkeys(_FIELDS) | {"is_day_only": False} | fields
    for name in _LINES:
        data[name] = one_line(str(data[name])) or None if data[name] else None
    data["text"] = item.cut_text(str(data["text"] or "").strip()) or None
    item.records.append(
        ParsedRecord("activities", {"id": key, "service": service, "kind": kind, **data})
    )


def subscription(service: str, *, channel: str, name: str, url: str | None) -> ParsedRecord:
    return ParsedRecord(
        "subscriptions",
        {
            "id": key(service, "subscription", channel),
            "service": service,
            "name": one_line(name) or None,
            "url": url,
        },
    )


def find_table(file: ExportFile) -> Callable[[Row], ParsedItem] | None:
    """Return what parses the rows of a table."""
    if file.suffix != ".csv":
        return None
    tables = (parse for columns, parse in _TABLES if find_header(file, *columns) == 0)
    return next(tables, None)


def _read_table(file: ExportFile) -> ExportItems:
    parse = find_table(file)
    if parse is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    yield from read_rows(file, parse)


def _subscription(row: Row) -> ParsedItem:
    channel = row.get("channel id", "").strip()
    if not channel:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    name, url = row.get("channel title", ""), row.get("channel url", "").strip() or None
    return ParsedItem([subscription(YOUTUBE, channel=channel, name=name, url=url)])


def _message(row: Row, *, noun: str, kind: str) -> ParsedItem:
    item = ParsedItem()
    message_id = row.get(f"{noun} id", "").strip()
    if not message_id:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    written = row.get(f"{noun} create timestamp", "").strip()
    video = row.get("video id", "").strip()
    post = row.get("post id", "").strip()
    url = f"https://www.youtube.com/watch?v={video}" if video else None
    parent = row.get("parent comment id", "").strip()
    add_activity(
        item,
        key=key("google", "message", message_id),
        service=YOUTUBE,
        kind=kind,
        url=url or (f"https://www.youtube.com/post/{post}" if post else None),
        at=item.require_date(to_utc(written), written),
        in_reply_to=key("google", "message", parent) if parent else None,
        text=_comment_text(row.get(f"{noun} text", "")),
    )
    return item


def _comment_text(written: str) -> str:
    """Return the text of the segments; older exports have the text itself.

    Since 2024 there is a list of objects without its brackets.
    """
    if not written.startswith("{"):
        return written
    try:
        nodes = orjson.loads(f"[{written}]")
    except orjson.JSONDecodeError:
        return written
    segments = [
        segment
        for node in nodes
        if isinstance(node, dict)
        for segment in (_list(node.get("takeoutSegments")) or [node])
        if isinstance(segment, dict)
    ]
    return "".join(map(_segment_text, segments)) or written


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _segment_text(segment: dict[str, object]) -> str:
    link = segment.get("link")
    url = link.get("linkUrl") if isinstance(link, dict) else None
    text = str(segment.get("text") or "")
    return f"{text.rstrip()} ({url})" if url and text and url != text else text or str(url or "")


_TABLES = (
    (("channel id", "channel url", "channel title"), _subscription),
    (
        ("comment id", "comment create timestamp", "comment text"),
        partial(_message, noun="comment", kind="commented"),
    ),
    (
        ("live chat id", "live chat create timestamp", "live chat text"),
        partial(_message, noun="live chat", kind="chatted"),
    ),
)


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
    add_activity(
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
    return key("google", second, identity, *([entry.number] if entry.number > 1 else []))


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


def _read(files: ExportFiles, options: Options) -> ExportItems:
    yield from iter_items([file for file in files if file.suffix == ".csv"], _read_table)
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
    moment = item.require_date(to_utc(node.get("time")), node.get("time"))
    products = node.get("products")
    product = str(products[0]) if isinstance(products, list) and products else None
    add_entry(
        item,
        Entry(
            service=json_line(node, "header") or product or "Google",
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


def _texts(node: Json, subtitles: list[Json], details: list[str]) -> Iterator[str]:
    """Yield what the entry shows below its title, such as the answer of an assistant."""
    yield from filter(None, (json_text(node, "description"),))
    yield from filter(None, (json_line(each, "name") for each in subtitles))
    yield from details
    for each in json_objects(node, "safeHtmlItem"):
        yield html_to_text(json_text(each, "html"))


GOOGLE_ACTIVITY = Importer(
    claim=claim_each(lambda file: _is_json(file) or is_page(file) or find_table(file)), read=_read
)


NOTE_MAX_BYTES = 8 * 1024 * 1024
_EDITED, _CREATED = "userEditedTimestampUsec", "createdTimestampUsec"

Media = Mapping[str, ExportFile]


def _is_note(file: ExportFile) -> bool:
    return file.suffix == ".json" and (
        head_has(file, b"isTrashed", b"isArchived")
        or (head_has(file) and file.path.parent.name == "Keep" and _EDITED.encode() in file.head)
    )


def _claim(files: ExportFiles) -> list[ExportFile]:
    """Return the notes and everything beside them: pages of the same notes, labels and media."""
    folders = {file.path.parent for file in files if _is_note(file)}
    folders = {folder for folder in folders if folder.name == "Keep"}
    return [file for file in files if _is_note(file) or file.path.parent in folders]


def _read_keep(files: ExportFiles, _options: Options) -> ExportItems:
    media = {file.name: file for file in files if not _is_note(file)}
    notes = [file for file in files if file.suffix == ".json"]
    return iter_items(notes, partial(_read_file, media=media))


def _read_file(file: ExportFile, *, media: Media) -> ExportItems:
    yield ExportItem(file.name, "", file.size, partial(_note, file, media))


def _note(file: ExportFile, media: Media) -> ParsedItem:
    node = _parse_keep(file)
    item = ParsedItem()
    created_at = unix_to_utc(node.get(_CREATED), per_second=1_000_000)
    edited_at = unix_to_utc(node.get(_EDITED), per_second=1_000_000) or created_at
    # Exports before 2021 have no creation time. The file is named by the title, or by the time of creation.
    note = records.Note(
        key=records.note_key("keep", node.get(_CREATED) or file.path.name),
        path=f"Keep/{file.path.stem}",
        title=json_line(node, "title") or _first_line(node) or file.path.stem,
        text=_text(node),
        service="keep",
        modified_at=item.require_date(edited_at, node.get(_EDITED)),
        details={
            "created_at": created_at,
            "tags": records.clean_tags(label.get("name") for label in json_objects(node, "labels")),
            "state": _state(node),
            "url": next(
                (
                    url
                    for link in json_objects(node, "annotations")
                    if (url := json_line(link, "url"))
                ),
                None,
            ),
        },
    )
    records.add_note(item, note)
    for attachment in json_objects(node, "attachments"):
        _add_attachment(item, note, attachment, file, media)
    return item


def _parse_keep(file: ExportFile) -> Json:
    """Raises ``UnreadableError``."""
    try:
        node = orjson.loads(decode(file.read(max_bytes=NOTE_MAX_BYTES)))
    except orjson.JSONDecodeError as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    if not isinstance(node, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    return node


def _first_line(node: Json) -> str | None:
    return next((line.strip() for line in _text(node).splitlines() if line.strip()), "")[:100]


def _text(node: Json) -> str:
    text = json_text(node, "textContent") or html_to_text(json_text(node, "textContentHtml"))
    lines = [text] if text else []
    for entry in json_objects(node, "listContent"):
        sign = "x" if entry.get("isChecked") is True else " "
        shown = json_text(entry, "text") or html_to_text(json_text(entry, "textHtml"))
        lines.append(f"[{sign}] {shown}")
    for link in json_objects(node, "annotations"):
        lines += filter(None, (json_line(link, "title"), json_line(link, "url")))
    return "\n".join(lines)


def _state(node: Json) -> str | None:
    if node.get("isTrashed") is True:
        return "trashed"
    return "archived" if node.get("isArchived") is True else None


def _add_attachment(
    item: ParsedItem, note: records.Note, attachment: Json, file: ExportFile, media: Media
) -> None:
    name = (json_line(attachment, "filePath") or "").rpartition("/")[2]
    # Takeout writes .jpeg where the archive has .jpg.
    stem = name.rpartition(".")[0] or name
    paths = (f"{file.path.parent}/{each}" for each in (name, f"{stem}.jpg", f"{stem}.png"))
    found = next((media[path] for path in paths if path in media), None)
    records.add_export_file(
        item, note, found, name=name, media_type=json_line(attachment, "mimetype")
    )


KEEP = Importer(claim=_claim, read=_read_keep)
