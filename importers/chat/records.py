"""Build conversation, message and attachment records for every chat service."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from evidence import limits
from importers.core.export_files import ExportFile
from importers.core.file_texts import add_attachment, detect_media_type
from importers.core.results import (
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import one_line, replace_unstorable, truncate


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
        "author": one_line(replace_unstorable(author or "")) or None,
        "author_id": _author_id(author_id),
        "sent_at": sent_at,
        "edited_at": edited_at,
        "kind": kind,
        "thread_id": thread_id,
        "reply_to": reply_to,
        "reactions": list(reactions),
        "has_attachments": bool(files),
        "text": _stored_text(item, text),
    }
    item.records.append(ParsedRecord("messages", message))
    item.records += [
        _attachment(item, file, key=f"{key}.{number}", message=message)
        for number, file in enumerate(files, 1)
    ]


def _stored_text(item: ParsedItem, text: str) -> str | None:
    text, is_truncated = truncate(replace_unstorable(text))
    if is_truncated:
        item.add_issue(ReceiptCode.TEXT_CUT)
    return text or None


def _author_id(value: object) -> str | None:
    return one_line(replace_unstorable(str(value)), max_chars=200) if value else None


def only_objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, and nothing for any other value of an export."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def conversation_id(service: str, name: str) -> str:
    return f"{service[0]}_{sha256(f'{service}/{name}'.encode('utf-8', 'replace')).hexdigest()[:20]}"


def _attachment(
    item: ParsedItem, file: MessageFile, *, key: str, message: dict[str, Any]
) -> ParsedRecord:
    data: dict[str, Any] = {
        "id": key,
        "message_id": message["id"],
        "filename": one_line(replace_unstorable(file.name), max_chars=255) or None,
        "media_type": detect_media_type(file.name, file.media_type),
        "size_bytes": file.size,
        "is_inline": False,
        "sent_at": message["sent_at"],
        "text": None,
        "blob_ref": None,
    }
    if file.content is not None:
        data |= _content_fields(item, file.content, key=key, media_type=data["media_type"])
    return ParsedRecord("attachments", data)


def _content_fields(
    item: ParsedItem, file: ExportFile, *, key: str, media_type: str
) -> dict[str, Any]:
    try:
        content = file.read(max_bytes=limits.BLOB_MAX_BYTES)
    except UnreadableError as error:
        is_too_large = error.issue.code is ReceiptCode.TOO_LARGE
        code = ReceiptCode.FILE_TOO_LARGE if is_too_large else ReceiptCode.FILE_MISSING
        item.add_issue(code, detail=file.name)
        return {"size_bytes": file.size}
    attachment = add_attachment(
        item,
        content,
        stream="attachments",
        key=key,
        media_type=media_type,
        name=file.path.name,
    )
    return {"size_bytes": len(content), "text": attachment.text, "blob_ref": attachment.blob_ref}
