"""Read the pages of My Activity and of the history of YouTube (HTML)."""

import html
import re
from collections.abc import Iterator
from datetime import tzinfo
from functools import partial
from hashlib import sha256

from importers.activity.records import Repeats
from importers.core.export_files import ExportFile
from importers.core.moments import parse_written_moment
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, one_line, strip_tags
from importers.takeout.activity_entries import Entry, add_entry

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
        parse = partial(_parse, entry, zone=zone, number=repeat)
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


def _parse(content: bytes, *, zone: tzinfo, number: int) -> ParsedItem:
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
