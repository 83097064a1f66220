"""The records of every chat, in one shape."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from evidence import limits
from importers.core import attachments
from importers.core.export_files import Entry
from importers.core.results import Code, Item, Row, UnreadableError
from importers.core.text import cut, one_line, storable


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """``id`` is its record's key."""

    id: str
    name: str
    service: str
    kind: str = "chat"

    def row(self, *, topic: str | None = None, members: Iterable[str] = ()) -> Row:
        return Row(
            "conversations",
            {
                "id": self.id,
                "name": self.name,
                "kind": self.kind,
                "service": self.service,
                "topic": topic or None,
                "members": list(members),
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A file of a message; ``entry`` is None where the export does not hold it."""

    name: str
    media_type: str | None = None
    size: int | None = None
    entry: Entry | None = None


def message(
    item: Item,
    conversation: Conversation,
    *,
    key: str,
    text: str,
    sent_at: str | None,
    author: str | None = None,
    author_id: object = None,
    edited_at: str | None = None,
    kind: str = "message",
    thread_id: str | None = None,
    reply_to: str | None = None,
    reactions: Iterable[str] = (),
    sent: Iterable[Sent] = (),
) -> None:
    """Adds a message and its files to an item."""
    shown, lost = cut(storable(text))
    if lost:
        item.remark(Code.TEXT_CUT)
    attached = list(sent)
    data: dict[str, Any] = {
        "id": key,
        "conversation_id": conversation.id,
        "conversation": conversation.name,
        "service": conversation.service,
        "author": one_line(storable(author or "")) or None,
        "author_id": one_line(storable(str(author_id)), most=200) if author_id else None,
        "sent_at": sent_at,
        "edited_at": edited_at,
        "kind": kind,
        "thread_id": thread_id,
        "reply_to": reply_to,
        "reactions": list(reactions),
        "has_attachments": bool(attached),
        "text": shown or None,
    }
    item.rows.append(Row("messages", data))
    for number, each in enumerate(attached, 1):
        item.rows.append(_attachment(item, each, key=f"{key}.{number}", message=data))


def objects(value: object) -> list[dict[str, Any]]:
    """Those of a list; an export may have anything in its place."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def conversation_id(service: str, name: str) -> str:
    return f"{service[0]}_{sha256(f'{service}/{name}'.encode('utf-8', 'replace')).hexdigest()[:20]}"


def _attachment(item: Item, sent: Sent, *, key: str, message: dict[str, Any]) -> Row:
    data: dict[str, Any] = {
        "id": key,
        "message_id": message["id"],
        "filename": one_line(storable(sent.name), most=255) or None,
        "media_type": attachments.media_type_of(sent.name, sent.media_type),
        "size_bytes": sent.size,
        "is_inline": False,
        "sent_at": message["sent_at"],
        "text": None,
        "blob_ref": None,
    }
    if sent.entry is not None:
        data |= _content(item, sent.entry, key=key, media_type=data["media_type"])
    return Row("attachments", data)


def _content(item: Item, entry: Entry, *, key: str, media_type: str) -> dict[str, Any]:
    try:
        content = entry.read(most=limits.BLOB_MAX_BYTES)
    except UnreadableError as error:
        too_large = error.remark.code is Code.TOO_LARGE
        item.remark(Code.FILE_TOO_LARGE if too_large else Code.FILE_MISSING, detail=entry.name)
        return {"size_bytes": entry.size}
    kept = attachments.kept(
        content, stream="attachments", key=key, media_type=media_type, item=item
    )
    if kept.file is not None:
        item.files.append(kept.file)
    return {"size_bytes": len(content), "text": kept.text, "blob_ref": kept.blob_ref}
