"""Extract the text of Word, Excel, PowerPoint and OpenDocument files.

The libraries are the extra ``office``. They are imported when a file needs them.
"""

import html
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from importers.core.binary_formats import MAX_CHARS, TimeLimitExceeded, time_limit
from importers.core.results import ReceiptCode
from importers.core.text import html_to_text, normalize_whitespace

MEDIA_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}
OFFICE_SECONDS = 20.0
UNPACKED_MAX_BYTES = 200 * 1024 * 1024
_PAGE_PART = re.compile(r"word/(?:header|footer)\d*\.xml")
_WORD_TEXT = re.compile(r"<w:t(?:\s[^>]*)?>([^<]*)</w:t>")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


class OfficeText(NamedTuple):
    """The text of a file, or why there is none."""

    text: str | None = None
    issue: ReceiptCode | None = None


def extract_office_text(content: bytes) -> OfficeText:
    """Return the text of a file; its content decides the format, not its name."""
    if _ENCRYPTED in content[: 1024 * 1024]:
        return OfficeText(issue=ReceiptCode.LOCKED)
    try:
        with time_limit(OFFICE_SECONDS):
            read = _find_reader(content)
            text = "" if read is None else _join(read(io.BytesIO(content)))
    except ImportError:
        return OfficeText(issue=ReceiptCode.NEEDS_OFFICE)
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - the libraries raise arbitrary errors
        return OfficeText(issue=ReceiptCode.NO_TEXT)
    return OfficeText(text) if text else OfficeText(issue=ReceiptCode.NO_TEXT)


def _find_reader(content: bytes) -> Callable[[io.BytesIO], Iterable[str]] | None:
    """Return the reader for the parts of the archive. Raises for damaged and oversized ones."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = set(archive.namelist())
        if sum(info.file_size for info in archive.infolist()) > UNPACKED_MAX_BYTES:
            return None
    for name, read in (
        ("word/document.xml", _read_word),
        ("xl/workbook.xml", _read_excel),
        ("ppt/presentation.xml", _read_powerpoint),
        ("content.xml", _read_opendocument),
    ):
        if name in names:
            return read
    return None


def _join(lines: Iterable[str]) -> str:
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line) + 1
        if size > MAX_CHARS:
            break
    return normalize_whitespace("\n".join(parts))


def _read_word(stream: io.BytesIO) -> Iterator[str]:
    import mammoth

    ignored = mammoth.images.img_element(lambda _image: {"src": ""})
    yield html_to_text(mammoth.convert_to_html(stream, convert_image=ignored).value)
    # The library leaves out what each page repeats at its top and bottom.
    with zipfile.ZipFile(stream) as archive:
        names = sorted(filter(_PAGE_PART.fullmatch, archive.namelist()))
        texts = (_paragraphs(archive.read(name).decode("utf-8", "replace")) for name in names)
        yield from dict.fromkeys(chain.from_iterable(texts))


def _paragraphs(part: str) -> Iterator[str]:
    for paragraph in part.split("</w:p>"):
        if text := "".join(_WORD_TEXT.findall(paragraph)).strip():
            yield html.unescape(text)


def _read_excel(stream: io.BytesIO) -> Iterator[str]:
    """Yield the rows of each sheet, with the values that formulas had when the file was saved."""
    import openpyxl

    workbook = openpyxl.load_workbook(stream, read_only=True, data_only=True)
    for sheet in workbook.worksheets:
        yield f"\n{sheet.title}"
        yield from _rows(sheet.iter_rows(values_only=True))


def _rows(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    for row in rows:
        values = ["" if value is None else str(value).strip() for value in row]
        if any(values):
            yield " | ".join(values).rstrip(" |")


def _read_powerpoint(stream: io.BytesIO) -> Iterator[str]:
    from pptx import Presentation

    for number, slide in enumerate(Presentation(stream).slides, 1):
        yield f"\nSlide {number}"
        yield from _shape_texts(slide.shapes)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            yield slide.notes_slide.notes_text_frame.text


def _shape_texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shape_texts(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from _rows([cell.text for cell in row.cells] for row in shape.table.rows)
        elif shape.has_text_frame:
            yield shape.text_frame.text


def _read_opendocument(stream: io.BytesIO) -> Iterator[str]:
    from odfdo import Document

    document = Document(stream)
    if document.get_type().startswith("spreadsheet"):
        for table in document.body.tables:
            yield f"\n{table.name}"
            yield from _rows(row.get_values() for row in table.traverse())
    else:
        yield document.get_formatted_text()
