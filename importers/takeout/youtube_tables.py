"""Read the tables of YouTube: subscriptions, comments and messages of live chats (CSV)."""

from collections.abc import Callable

import orjson

from importers.core.dates import require_moment, to_utc
from importers.core.export_files import ExportFile
from importers.core.readers import Row, find_header, read_rows
from importers.core.results import ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.takeout import activity_records as records

SERVICE = "YouTube"


def find_table(file: ExportFile) -> Callable[[Row], ParsedItem] | None:
    """Return what parses the rows of a table."""
    if file.suffix != ".csv":
        return None
    tables = (parse for columns, parse in _TABLES if find_header(file, *columns) == 0)
    return next(tables, None)


def read(file: ExportFile) -> ExportItems:
    parse = find_table(file)
    if parse is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    yield from read_rows(file, parse)


def _subscription(row: Row) -> ParsedItem:
    channel = row.get("channel id", "").strip()
    if not channel:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    name, url = row.get("channel title", ""), row.get("channel url", "").strip() or None
    return ParsedItem([records.subscription(SERVICE, channel=channel, name=name, url=url)])


def _comment(row: Row) -> ParsedItem:
    return _message(row, "comment", kind="commented")


def _chat_message(row: Row) -> ParsedItem:
    return _message(row, "live chat", kind="chatted")


def _message(row: Row, noun: str, *, kind: str) -> ParsedItem:
    item = ParsedItem()
    message_id = row.get(f"{noun} id", "").strip()
    if not message_id:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    written = row.get(f"{noun} create timestamp", "").strip()
    video = row.get("video id", "").strip()
    post = row.get("post id", "").strip()
    url = f"https://www.youtube.com/watch?v={video}" if video else None
    parent = row.get("parent comment id", "").strip()
    records.add_activity(
        item,
        key=records.key("google", "message", message_id),
        service=SERVICE,
        kind=kind,
        url=url or (f"https://www.youtube.com/post/{post}" if post else None),
        at=require_moment(to_utc(written), item, written=written),
        in_reply_to=records.key("google", "message", parent) if parent else None,
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
    (("comment id", "comment create timestamp", "comment text"), _comment),
    (("live chat id", "live chat create timestamp", "live chat text"), _chat_message),
)
