"""Extract the text of Word, Excel, PowerPoint and OpenDocument files.

The libraries are the extra ``office``. They are imported when a file needs them.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import olefile

from importers.core.binary_formats import MAX_CHARS, TimeLimitExceeded, rtf_text, time_limit
from importers.core.office_xml import (
    drawn_lines,
    link_targets,
    missing_lines,
    opendocument_lines,
)
from importers.core.results import ReceiptCode
from importers.core.text import decode, html_to_text, normalize_whitespace, text_prefix

MEDIA_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}
MEDIA_TYPES |= {
    ".docm": "application/vnd.ms-word.document.macroenabled.12",
    ".dotx": "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
    ".xlsm": "application/vnd.ms-excel.sheet.macroenabled.12",
    ".xltx": "application/vnd.openxmlformats-officedocument.spreadsheetml.template",
    ".pptm": "application/vnd.ms-powerpoint.presentation.macroenabled.12",
    ".ppsx": "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
    ".rtf": "application/rtf",
    ".doc": "application/msword",
    ".xls": "application/vnd.ms-excel",
    ".ppt": "application/vnd.ms-powerpoint",
}
OFFICE_SECONDS = 20.0
UNPACKED_MAX_BYTES = 200 * 1024 * 1024
_RTF = b"{\\rtf"
_DELETED_RTF = re.compile(rb"\{\\deleted\b[^{}]*\}")
_WORD_PARTS = re.compile(
    r"word/(?:document|comments|header|footer|charts/chart|diagrams/data)\d*\.xml"
)
_EXCEL_PARTS = re.compile(
    r"xl/(?:comments(?:/comment)?|threadedComments/threadedComment|drawings/drawing|charts/chart|diagrams/data)"
    r"\d*\.xml"
)
_POWERPOINT_PARTS = re.compile(
    r"ppt/(?:slides/slide|comments/\w*?|charts/chart|diagrams/data)\d*\.xml"
)
_LINKS = re.compile(r"(?:xl/worksheets|ppt/slides)/_rels/[^/]*\.rels")
_READ_AS_TAG = re.compile(rb"<(/?)w:(?:fldSimple|bdo|dir|ruby|rubyBase)(?=[\s>])")
"""Elements that the library leaves out; it reads the content of a w:smartTag."""
_CHECKBOX = re.compile(r"<input [^<>]*type=\"checkbox\"[^<>]*>")
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/"
_NOT_A_DECK = re.compile(rb"presentationml\.(?:slideshow|template)\.main\+xml")
_UNSAVED_FORMULA = re.compile(rb"(?:</f>|<f [^<>]*/>)\s*(?:<v\s*/>|<v></v>|</c>)")
_BLOCK_BYTES, _OVERLAP = 1024 * 1024, 64


class OfficeText(NamedTuple):
    """The text of a file, or why there is none."""

    text: str | None = None
    issue: ReceiptCode | None = None


def is_office(content: bytes, media_type: str) -> bool:
    """Return whether a file is one of Office; mail calls RTF text."""
    return media_type in MEDIA_TYPES.values() or content.startswith(_RTF)


def extract_office_text(content: bytes) -> OfficeText:
    """Return the text of a file; its content decides the format, not its name.

    Of a file that takes too long, or is damaged behind its start, the text before that is returned.
    """
    if content.startswith(olefile.MAGIC[:4]):
        return OfficeText(issue=_issue_of_container(content))
    lines: list[str] = []
    try:
        with time_limit(OFFICE_SECONDS):
            lines.extend(_lines(content))  # keeps those before an error
    except ImportError:
        return OfficeText(issue=ReceiptCode.NEEDS_OFFICE)
    except _LockedError:
        return OfficeText(issue=ReceiptCode.LOCKED)
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - the libraries raise arbitrary errors
        text = normalize_whitespace("\n".join(lines))
        return OfficeText(
            text or None, ReceiptCode.PARTLY_IMPORTED if text else ReceiptCode.NO_TEXT
        )
    text = normalize_whitespace("\n".join(lines))
    return OfficeText(text) if text else OfficeText(issue=ReceiptCode.NO_TEXT)


class _LockedError(Exception):
    """The file is encrypted."""


def _issue_of_container(content: bytes) -> ReceiptCode:
    """Return what a file of Office before 2007 is; a locked file of today is in such a container."""
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as ole:
            is_locked = ole.exists("EncryptedPackage")
    except Exception:  # noqa: BLE001 - olefile raises arbitrary errors
        is_locked = "EncryptedPackage".encode("utf-16-le") in content
    return ReceiptCode.LOCKED if is_locked else ReceiptCode.OLD_OFFICE


def _lines(content: bytes) -> Iterator[str]:
    """Yield lines up to MAX_CHARS. Raises for damaged and locked files."""
    if content.startswith(_RTF):
        yield rtf_text(_DELETED_RTF.sub(b"", content))
        return
    if (
        content.lstrip()[:9].lower().startswith((b"<html", b"<!doctype"))
    ):  # some programs save .doc so
        yield html_to_text(decode(text_prefix(content)))
        return
    size = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for line in _find_reader(archive)(archive):
            yield line
            size += len(line) + 1
            if size > MAX_CHARS:
                return


def _find_reader(archive: zipfile.ZipFile) -> Callable[[zipfile.ZipFile], Iterable[str]]:
    """Return the reader for the parts of the archive. Raises for oversized and locked ones."""
    names = set(archive.namelist())
    if sum(info.file_size for info in archive.infolist()) > UNPACKED_MAX_BYTES:
        raise ValueError("unpacked size")
    manifest = "META-INF/manifest.xml"
    if manifest in names and b"encryption-data" in archive.read(manifest):
        raise _LockedError
    for start, read in (
        ("word/document", _read_word),
        ("xl/workbook", _read_excel),
        ("ppt/presentation", _read_powerpoint),
        ("content.xml", opendocument_lines),
    ):
        if any(name.startswith(start) for name in names):
            return read
    raise ValueError("no document")


def _stream(archive: zipfile.ZipFile) -> io.BytesIO:
    """Return the file as the libraries read it: they know neither strict files nor slide shows."""
    is_strict = b"purl.oclc.org" in archive.read("_rels/.rels")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as changed:
        for name in archive.namelist():
            content, packing = archive.read(name), zipfile.ZIP_STORED
            if name.endswith((".xml", ".rels")):
                packing = zipfile.ZIP_DEFLATED
                content = _STRICT.sub(_TRANSITIONAL, content) if is_strict else content
            if name.startswith("word/"):
                content = _READ_AS_TAG.sub(rb"<\1w:smartTag", content)
                content = content.replace(b"<w:cr/>", b"<w:br/>")
            if name == "[Content_Types].xml":
                content = _NOT_A_DECK.sub(b"presentationml.presentation.main+xml", content)
            changed.writestr(name, content, packing, compresslevel=1)
    stream.seek(0)
    return stream


def _read_word(archive: zipfile.ZipFile) -> Iterator[str]:
    import mammoth

    ignored = mammoth.images.img_element(lambda _image: {"src": ""})
    result = mammoth.convert_to_html(
        _stream(archive), convert_image=ignored, style_map="comment-reference => sup"
    )
    text = html_to_text(_CHECKBOX.sub(_checkbox, result.value))
    yield text
    # The library leaves out what each page repeats, formulas and some text boxes.
    yield from missing_lines(drawn_lines(archive, _WORD_PARTS), text)


def _checkbox(found: re.Match[str]) -> str:
    return "☒ " if "checked=" in found[0] else "☐ "


def _read_excel(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the rows of each sheet, with the values that formulas had when the file was saved."""
    import openpyxl

    stream = _stream(archive)
    workbook = openpyxl.load_workbook(stream, read_only=True, data_only=True)
    formulas = openpyxl.load_workbook(stream, read_only=True) if _has_unsaved(archive) else workbook
    lines: list[str] = []
    for sheet in workbook.worksheets:
        sheet.reset_dimensions()  # programs write wrong ones
        rows = sheet.iter_rows(values_only=True)
        if formulas is not workbook:
            formulas[sheet.title].reset_dimensions()
            rows = map(_with_formulas, rows, formulas[sheet.title].iter_rows(values_only=True))
        for line in chain([f"\n{sheet.title}"], _rows(rows)):
            lines.append(line)
            yield line
    text = "\n".join(lines)
    yield from missing_lines(drawn_lines(archive, _EXCEL_PARTS), text)
    yield from (link for link in dict.fromkeys(link_targets(archive, _LINKS)) if link not in text)


def _with_formulas(values: Iterable[Any], formulas: Iterable[Any]) -> list[Any]:
    """Return the values of a row, and the formulas of cells without any."""
    pairs = zip(values, formulas, strict=False)
    return [formula if value is None else value for value, formula in pairs]


def _has_unsaved(archive: zipfile.ZipFile) -> bool:
    """Return whether a formula has no value: the program that wrote the file does not compute."""
    for name in archive.namelist():
        if name.startswith("xl/worksheets/"):
            with archive.open(name) as part:
                end = b""
                while block := part.read(_BLOCK_BYTES):
                    if _UNSAVED_FORMULA.search(end + block):
                        return True
                    end = block[-_OVERLAP:]
    return False


def _rows(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    for row in rows:
        values = ["" if value is None else str(value).strip() for value in row]
        if any(values):
            yield " | ".join(values).rstrip(" |")


def _read_powerpoint(archive: zipfile.ZipFile) -> Iterator[str]:
    from pptx import Presentation

    lines: list[str] = []
    for number, slide in enumerate(Presentation(_stream(archive)).slides, 1):
        lines += [f"\nSlide {number}", *_shape_texts(slide.shapes)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(slide.notes_slide.notes_text_frame.text)
    yield from lines
    text = "\n".join(lines)
    yield from missing_lines(drawn_lines(archive, _POWERPOINT_PARTS), text)
    yield from (link for link in dict.fromkeys(link_targets(archive, _LINKS)) if link not in text)


def _shape_texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shape_texts(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from _rows([cell.text for cell in row.cells] for row in shape.table.rows)
        elif shape.has_text_frame:
            yield shape.text_frame.text
