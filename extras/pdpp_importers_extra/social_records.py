"""Build the records of posts, likes and people of social networks."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from importers.core.export_files import ExportFile
from importers.core.file_texts import add_attachment, detect_media_type, read_attached
from importers.core.results import (
    ParsedItem,
    ParsedRecord,
    record_key,
)
from importers.core.text import one_line

_POST_FIELDS = ("title", "author", "posted_at", "edited_at", "url", "group", "place", "in_reply_to",
                "to", "language", "likes", "reposts")  # fmt: skip
_POST_LISTS = ("links", "mentions", "tags")
_LIKE_FIELDS = ("title", "author", "reaction", "liked_at", "url", "text")
MAX_LISTED = 200


key = partial(record_key, "s_")
"""Return the key of a record of a service, by what it is."""


def add_post(
    item: ParsedItem,
    *,
    key: str,
    service: str,
    kind: str,
    text: str,
    files: Iterable[tuple[str, ExportFile | None]] = (),
    **fields: Any,
) -> None:
    """Add a post and its files, each a path and the file if the export has it."""
    text = item.cut_text(text.strip())
    listed = list(files)[:MAX_LISTED]
    data: dict[str, Any] = {"id": key, "service": service, "kind": kind}
    data |= dict.fromkeys(_POST_FIELDS) | {name: [] for name in _POST_LISTS} | fields
    data |= {"has_attachments": bool(listed), "text": text or None}
    item.records.append(ParsedRecord("posts", data))
    for number, (name, file) in enumerate(listed, 1):
        _add_file(item, name, file, key=f"{key}.{number}", post=data)


def _add_file(
    item: ParsedItem, name: str, file: ExportFile | None, *, key: str, post: dict[str, Any]
) -> None:
    shown = one_line(name.rpartition("/")[2], max_chars=255)
    data: dict[str, Any] = {
        "id": key,
        "post_id": post["id"],
        "filename": shown or None,
        "media_type": detect_media_type(shown),
        "size_bytes": file.size if file else None,
        "posted_at": post["posted_at"],
        "text": None,
        "blob_ref": None,
    }
    content = None if file is None else read_attached(file, item, name=shown)
    if content is not None:
        found = add_attachment(
            item, content, stream="attachments", key=key, media_type=data["media_type"], name=shown
        )
        data |= {"text": found.text, "blob_ref": found.blob_ref}
    item.records.append(ParsedRecord("attachments", data))


def like(*, key: str, service: str, kind: str = "like", **fields: Any) -> ParsedRecord:
    data = {"id": key, "service": service, "kind": kind} | dict.fromkeys(_LIKE_FIELDS) | fields
    return ParsedRecord("likes", data)


def person(
    service: str,
    relation: str,
    *,
    name: str,
    identity: str | None = None,
    url: str | None = None,
    since: str | None = None,
) -> ParsedRecord:
    """Return a person; ``identity`` is an id that stays when the name changes."""
    return ParsedRecord(
        "people",
        {
            "id": key(service, relation, identity or url or name),
            "service": service,
            "relation": relation,
            "name": name,
            "url": url,
            "since": since,
        },
    )
