"""A file that belongs to a record: what it is called in the store, and what text it has."""

import mimetypes
import re
from hashlib import sha256
from typing import Any, NamedTuple

from evidence import limits
from importers.core import sandbox
from importers.core.results import Code, File, Item
from importers.core.text import beginning, cut, decoded, of_html

FALLBACK = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}")
_TEXTUAL = ("application/json", "application/xml")


class Kept(NamedTuple):
    """What a record says of its file; ``file`` is None where it is too large to keep."""

    media_type: str
    text: str | None
    pages: int | None
    blob_ref: dict[str, Any] | None
    file: File | None


def media_type_of(name: str | None, stated: str | None = None) -> str:
    """The stated one unless it says nothing, then what the name says."""
    if stated and stated != FALLBACK and _MEDIA_TYPE.fullmatch(stated):
        return stated.lower()
    guessed, _ = mimetypes.guess_type(name or "", strict=False)
    return guessed or FALLBACK


def kept(
    content: bytes,
    *,
    stream: str,
    key: str,
    media_type: str,
    item: Item,
    charset: str | None = None,
    text: str | None = None,
) -> Kept:
    """Remarks of the file go to ``item``. Its text is read here unless it is given."""
    pages = None
    if text is None:
        text, pages = text_of(content, media_type=media_type, charset=charset, item=item)
    if len(content) > limits.BLOB_MAX_BYTES:
        item.remark(Code.FILE_TOO_LARGE, detail=f"{len(content):,} bytes")
        return Kept(media_type, text, pages, None, None)
    digest = sha256(content).hexdigest()
    name = sha256(f"{stream}\0{key}\0{digest}".encode()).hexdigest()
    blob_id = f"blb_{name[:32]}"
    reference = {
        "blob_id": blob_id,
        "media_type": media_type,
        "size_bytes": len(content),
        "sha256": digest,
    }
    file = File(stream, key, blob_id, media_type, content)
    return Kept(media_type, text, pages, reference, file)


def text_of(
    content: bytes, *, media_type: str, charset: str | None, item: Item
) -> tuple[str | None, int | None]:
    """What can be read in it, and how many pages it has where it has pages."""
    pages = None
    if media_type == "application/pdf":
        found, pages = sandbox.pdf(content)
        if found is None:
            item.remark(Code.NO_TEXT)
            return None, pages
    elif media_type == "text/html":
        found = of_html(decoded(beginning(content), charset))
    elif media_type.startswith("text/") or media_type in _TEXTUAL:
        found = decoded(beginning(content), charset)
    else:
        return None, None
    text, lost = cut(found)
    if lost:
        item.remark(Code.TEXT_CUT)
    return text or None, pages
