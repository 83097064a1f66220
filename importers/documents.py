"""A folder of texts, Markdown and PDF: each file is a document."""

from functools import partial
from hashlib import sha256

from evidence import limits
from importers.core import attachments
from importers.core.export_files import Entry
from importers.core.importer import Entries, Kind, Options, by_suffix
from importers.core.results import Item, Piece, Pieces, Row
from importers.core.text import one_line

TYPES = {
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".rst": "text/x-rst",
    ".org": "text/x-org",
    ".tex": "text/x-tex",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
}


def _read(entries: Entries, options: Options) -> Pieces:
    for entry in entries:
        yield Piece(entry.name, "", entry.size, partial(_document, entry))


def _document(entry: Entry) -> Item:
    item = Item()
    path = _path(entry)
    key = f"d_{sha256(path.encode('utf-8', 'replace')).hexdigest()[:28]}"
    content = entry.read(most=limits.BLOB_MAX_BYTES)
    kept = attachments.kept(
        content, stream="documents", key=key, media_type=TYPES[entry.suffix], item=item
    )
    if kept.file is not None:
        item.files.append(kept.file)
    item.rows.append(
        Row(
            "documents",
            {
                "id": key,
                "path": path,
                "folder": path.rpartition("/")[0] or None,
                "title": _title(entry, kept.text or ""),
                "media_type": kept.media_type,
                "size_bytes": len(content),
                "modified_at": entry.modified_at.isoformat() if entry.modified_at else None,
                "pages": kept.pages,
                "text": kept.text,
                "blob_ref": kept.blob_ref,
            },
        )
    )
    return item


def _path(entry: Entry) -> str:
    """Below the folder that was imported, its name included: it is what tells two notebooks apart.
    The name of an archive is not, as the next one is called otherwise."""
    is_archive = entry.export.lower().endswith(".zip")
    alone = is_archive or entry.name == entry.export
    return entry.name if alone else f"{entry.export}/{entry.name}"


def _title(entry: Entry, text: str) -> str:
    """The first heading of Markdown, else the name of the file."""
    if TYPES[entry.suffix] == "text/markdown":
        for line in text.splitlines()[:40]:
            if line.startswith("# "):
                return one_line(line[2:]) or entry.path.name
    return entry.path.name


DOCUMENTS = Kind(
    name="documents",
    title="documents (text, Markdown, PDF)",
    source="documents",
    label="Documents",
    claim=by_suffix(*TYPES),
    read=_read,
)
