"""Build conversation, message and attachment records for every chat service."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from importers.core.export_files import ExportFile
from importers.core.file_texts import add_attachment, detect_media_type, read_attached
from importers.core.results import (
    ParsedItem,
    ParsedRecord,
    record_key,
)
from importers.core.text import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation; ``id`` is the key of its record."""

    id: str
    name: str
    service: str
    kind: str = "chat"

    def record(self, *, topic: str | None = None, members: Iterable[str] = ()) -> ParsedRecord:
        return ParsedRecord(
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
class MessageFile:
    """A file of a message; ``content`` is None where the export does not contain it."""

    name: str
    media_type: str | None = None
    size: int | None = None
    content: ExportFile | None = None


def add_message(
    item: ParsedItem,
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
    files: Sequence[MessageFile] = (),
) -> None:
    """Add the records of a message and its files."""
    message: dict[str, Any] = {
        "id": key,
        "conversation_id": conversation.id,
        "conversation": conversation.name,
        "service": conversation.service,
        "author": one_line(author or "") or None,
        "author_id": one_line(str(author_id), max_chars=200) if author_id else None,
        "sent_at": sent_at,
        "edited_at": edited_at,
        "kind": kind,
        "thread_id": thread_id,
        "reply_to": reply_to,
        "reactions": list(reactions),
        "has_attachments": bool(files),
        "text": item.cut_text(text) or None,
    }
    item.records.append(ParsedRecord("messages", message))
    item.records += [
        _attachment(item, file, key=f"{key}.{number}", message=message)
        for number, file in enumerate(files, 1)
    ]


def conversation_id(service: str, name: str) -> str:
    return record_key(f"{service[0]}_", f"{service}/{name}", length=20)


def _attachment(
    item: ParsedItem, file: MessageFile, *, key: str, message: dict[str, Any]
) -> ParsedRecord:
    data: dict[str, Any] = {
        "id": key,
        "message_id": message["id"],
        "filename": one_line(file.name, max_chars=255) or None,
        "media_type": detect_media_type(file.name, file.media_type),
        "size_bytes": file.size,
        "is_inline": False,
        "sent_at": message["sent_at"],
        "text": None,
        "blob_ref": None,
    }
    if file.content is not None:
        data["size_bytes"] = file.content.size
        content = read_attached(file.content, item, name=file.content.name)
        if content is not None:
            found = add_attachment(
                item,
                content,
                stream="attachments",
                key=key,
                media_type=data["media_type"],
                name=file.content.path.name,
            )
            data |= {"text": found.text, "blob_ref": found.blob_ref, "size_bytes": len(content)}
    return ParsedRecord("attachments", data)
