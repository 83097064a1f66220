"""Build the records of notes and their attachments, as documents."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from importers.core.export_files import ExportFile
from importers.core.file_texts import add_attachment, detect_media_type, read_attached
from importers.core.results import (
    ParsedItem,
    ParsedRecord,
    record_key,
)
from importers.core.text import one_line

MAX_TAGS = 200
TAG_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note; ``key`` is that of its record. Missing details are left out of the record."""

    key: str
    path: str
    title: str
    text: str
    service: str | None = None
    media_type: str = "text/plain"
    modified_at: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


note_key = partial(record_key, "n_")
"""Return the key of a note of a service, by what it is."""


def add_note(item: ParsedItem, note: Note) -> None:
    text = item.cut_text(note.text)
    item.records.append(
        ParsedRecord(
            "documents",
            {
                "id": note.key,
                "path": note.path,
                "folder": note.path.rpartition("/")[0] or None,
                "title": one_line(note.title) or None,
                "media_type": note.media_type,
                "modified_at": note.modified_at,
                "text": text.strip() or None,
                **details(service=note.service, **note.details),
            },
        )
    )


def details(**values: Any) -> dict[str, Any]:
    """Return the values that exist: records of files without them stay as they were stored."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def clean_tags(values: Iterable[object]) -> list[str]:
    """Return different tags without the sign # before them."""
    tags = (
        one_line(str(value), max_chars=TAG_MAX_CHARS).lstrip("#").strip()
        for value in values
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    )
    return list(dict.fromkeys(filter(None, tags)))[:MAX_TAGS]


def add_file(
    item: ParsedItem, note: Note, content: bytes, *, name: str, media_type: str | None = None
) -> None:
    """Add a file of a note, as a document of its own that names the note."""
    shown = one_line(name.rpartition("/")[2], max_chars=255)
    digest = sha256(content).hexdigest()
    key = note_key("file", note.key, shown, digest)
    if any(record.data["id"] == key for record in item.records):
        return
    detected = detect_media_type(name, media_type)
    attachment = add_attachment(
        item, content, stream="documents", key=key, media_type=detected, name=shown
    )
    item.records.append(
        ParsedRecord(
            "documents",
            {
                "id": key,
                "path": f"{note.path}/{shown or digest[:12]}",
                "folder": note.path,
                "title": shown or None,
                "media_type": attachment.media_type,
                "size_bytes": len(content),
                "modified_at": note.modified_at,
                "pages": attachment.pages,
                "text": attachment.text,
                "blob_ref": attachment.blob_ref,
                "service": note.service,
                "parent_id": note.key,
            },
        )
    )


def add_export_file(
    item: ParsedItem,
    note: Note,
    file: ExportFile | None,
    *,
    name: str,
    media_type: str | None = None,
) -> None:
    """Add a file of the export; a missing or too large one has a receipt."""
    content = read_attached(file, item, name=name)
    if content is not None:
        add_file(item, note, content, name=name, media_type=media_type)
