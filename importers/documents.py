"""Import folders of text, Markdown, HTML, PDF and Office files as documents, vaults of notes, and pictures that have text."""

from functools import partial
from typing import Any

from evidence import limits
from importers.core.export_files import ExportFile
from importers.core.file_texts import MEDIA_TYPES as OFFICE_TYPES
from importers.core.file_texts import add_attachment
from importers.core.importer import ExportFiles, Importer, Options, claim_by_suffix
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    record_key,
)
from importers.core.text_recognition import PICTURE_TYPES, is_installed, recognize_picture
from importers.notes import describe_note

MEDIA_TYPES = {
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
    **OFFICE_TYPES,
}
FILE_TYPES = MEDIA_TYPES | PICTURE_TYPES


def _read(files: ExportFiles, options: Options) -> ExportItems:
    lacks_recognition = not is_installed()
    for file in files:
        parse = partial(parse_document, file, options)
        if lacks_recognition and file.suffix in PICTURE_TYPES:
            parse = partial(ParsedItem, issues=[Issue(ReceiptCode.PICTURE_NEEDS_OCR)])
        yield ExportItem(file.name, "", file.size, parse)


def parse_document(file: ExportFile, options: Options) -> ParsedItem:
    """Return the record of a file: its text, and the file itself.

    A picture without text has no record.
    """
    item = ParsedItem()
    path = _path(file)
    key = record_key("d_", path)
    content = file.read(max_bytes=limits.BLOB_MAX_BYTES)
    media_type, text = FILE_TYPES[file.suffix], None
    if file.suffix in PICTURE_TYPES and (text := recognize_picture(content, item)) is None:
        return item
    attachment = add_attachment(
        item, content, stream="documents", key=key, media_type=media_type, text=text
    )
    text, title, details = attachment.text, None, dict[str, Any]()
    if media_type == "text/markdown" and text:
        text, title, details = describe_note(text, options.zone, item)
    item.records.append(
        ParsedRecord(
            "documents",
            {
                "id": key,
                "path": path,
                "folder": path.rpartition("/")[0] or None,
                "title": title or file.path.name,
                "media_type": attachment.media_type,
                "size_bytes": len(content),
                "modified_at": file.modified_at.isoformat() if file.modified_at else None,
                "pages": attachment.pages,
                "text": text or None,
                "blob_ref": attachment.blob_ref,
                **details,
            },
        )
    )
    return item


def _path(file: ExportFile) -> str:
    """Return the path within the export, with the name of an imported folder.

    The folder name tells two notebooks apart; the name of an archive changes with each export.
    """
    is_folder = not file.export.lower().endswith(".zip") and file.name != file.export
    return f"{file.export}/{file.name}" if is_folder else file.name


DOCUMENTS = Importer(
    claim=claim_by_suffix(*FILE_TYPES),
    read=_read,
)
