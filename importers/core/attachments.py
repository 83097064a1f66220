"""Extract the text of an attachment and build the record fields that describe it."""

import mimetypes
import re
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from evidence import limits
from importers.core.binary_formats import parse_pdf
from importers.core.office_files import MEDIA_TYPES as OFFICE_TYPES
from importers.core.office_files import extract_office_text, is_office
from importers.core.results import Issue, ParsedFile, ParsedItem, ReceiptCode
from importers.core.text import decode, html_to_text, text_prefix, truncate
from importers.core.text_recognition import (
    PICTURE_TYPES,
    recognize_attached_picture,
    recognize_pdf,
)

DEFAULT_MEDIA_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}")
_NEEDS_EXTRA = (
    ReceiptCode.NEEDS_OFFICE,
    ReceiptCode.NEEDS_OCR,
    ReceiptCode.PICTURES_NEED_OCR,
)
_TEXT_TYPES = ("application/json", "application/xml")


class AttachmentFields(NamedTuple):
    """Record fields of an attachment. ``blob_ref`` is None for one that is too large to store."""

    media_type: str
    text: str | None
    pages: int | None
    blob_ref: dict[str, Any] | None


def detect_media_type(name: str | None, declared: str | None = None) -> str:
    """Return the declared media type, or a guess by file name if none is declared."""
    if declared and declared != DEFAULT_MEDIA_TYPE and _MEDIA_TYPE.fullmatch(declared):
        return declared.lower()
    suffix = PurePosixPath(name or "").suffix.lower()
    guess = OFFICE_TYPES.get(suffix) or mimetypes.guess_type(name or "", strict=False)[0]
    return guess or DEFAULT_MEDIA_TYPE


def add_attachment(
    item: ParsedItem,
    content: bytes,
    *,
    stream: str,
    key: str,
    media_type: str,
    charset: str | None = None,
    text: str | None = None,
    name: str | None = None,
) -> AttachmentFields:
    """Add the file and its issues to an item, and return the fields for its record.

    ``stream`` and ``key`` are those of the record. The text is extracted unless it is given. The
    issues have the ``name`` of the file, unless it is that of the item.
    """
    before = len(item.issues)
    fields = _add_file(item, content, stream, key, media_type, charset, text)
    if name:
        item.issues[before:] = [
            Issue(issue.code, ": ".join(filter(None, (name[:80], issue.detail))))
            for issue in item.issues[before:]
        ]
    return fields


def _add_file(
    item: ParsedItem,
    content: bytes,
    stream: str,
    key: str,
    media_type: str,
    charset: str | None,
    text: str | None,
) -> AttachmentFields:
    pages = None
    if text is None:
        before = len(item.issues)
        text, pages = _extract_text(content, media_type=media_type, charset=charset, item=item)
        if any(issue.code in _NEEDS_EXTRA for issue in item.issues[before:]):
            item.unread_texts.add(key)
    if len(content) > limits.BLOB_MAX_BYTES:
        item.add_issue(ReceiptCode.FILE_TOO_LARGE, detail=f"{len(content):,} bytes")
        return AttachmentFields(media_type, text, pages, None)
    digest = sha256(content).hexdigest()
    identity = f"{stream}\0{key}\0{digest}"
    blob_id = f"blb_{sha256(identity.encode()).hexdigest()[:32]}"
    item.files.append(ParsedFile(stream, key, blob_id, media_type, content))
    blob_ref = {
        "blob_id": blob_id,
        "media_type": media_type,
        "size_bytes": len(content),
        "sha256": digest,
    }
    return AttachmentFields(media_type, text, pages, blob_ref)


def _extract_text(
    content: bytes, *, media_type: str, charset: str | None, item: ParsedItem
) -> tuple[str | None, int | None]:
    """Return the text, and the number of pages of a PDF."""
    pages = None
    if media_type == "application/pdf":
        text, pages = _pdf_text(content, item)
    elif is_office(content, media_type):
        text, issue = extract_office_text(content)
        item.issues += [] if issue is None else [Issue(issue)]
    elif media_type in PICTURE_TYPES.values():
        text = recognize_attached_picture(content, item)
    elif media_type == "text/html":
        text = html_to_text(decode(text_prefix(content), charset))
    elif media_type.startswith("text/") or media_type in _TEXT_TYPES:
        text = decode(text_prefix(content), charset)
    else:
        return None, None
    text, is_truncated = truncate(text or "")
    if is_truncated:
        item.add_issue(ReceiptCode.TEXT_CUT)
    return text or None, pages


def _pdf_text(content: bytes, item: ParsedItem) -> tuple[str | None, int | None]:
    text, pages, is_locked = parse_pdf(content)
    if text is None and pages and not is_locked:
        return recognize_pdf(content, item), pages
    if text is None:
        item.add_issue(ReceiptCode.LOCKED if is_locked else ReceiptCode.NO_TEXT)
    return text, pages
