"""Extract the text of PDF, TNEF, RTF, Office and OpenDocument files within limits, and describe attachments.

The libraries for Office are the extra ``office``. They are imported when a file needs them.
"""

import io
import mimetypes
import re
import signal
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple
from xml.etree.ElementTree import Element, iterparse

import olefile
from pypdf import PdfReader
from striprtf.striprtf import rtf_to_text
from tnefparse import TNEF

from evidence import limits
from importers.core.export_files import ExportFile
from importers.core.results import Issue, ParsedFile, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import decode, html_to_text, normalize_whitespace, text_prefix
from importers.core.text_recognition import PICTURE_TYPES, recognize_attached_picture, recognize_pdf

MAX_PAGES = 500
MAX_CHARS = 1_000_000
PDF_MAX_BYTES = 50 * 1024 * 1024
PDF_SECONDS = 20.0
TNEF_SECONDS = 5.0
_TNEF_SIGNATURE = b"\x78\x9f\x3e\x22"

TnefFields = tuple[dict[str, Any], list[bytes]]


class TimeLimitExceeded(BaseException):
    """A parser ran longer than its limit. No ``Exception``, which parsers catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeLimitExceeded`` after this time. Without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        raise TimeLimitExceeded

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class PdfContent(NamedTuple):
    """The text of a PDF and its number of pages, each None where it cannot be read."""

    text: str | None = None
    pages: int | None = None
    is_locked: bool = False


def parse_pdf(content: bytes) -> PdfContent:
    """Return the text of all pages before the first damaged one, and before the time limit.

    Values of form fields follow. ``is_locked``: the file cannot be read without its password.
    """
    if len(content) > PDF_MAX_BYTES or b"%PDF" not in content[:1024]:
        return PdfContent()
    texts: list[str] = []
    pages, is_locked = None, False
    try:
        with time_limit(PDF_SECONDS):
            reader = PdfReader(io.BytesIO(content))
            is_locked = reader.is_encrypted and not reader.decrypt("")
            pages = len(reader.pages)
            for page in reader.pages[:MAX_PAGES]:
                texts.append(page.extract_text())
                if sum(map(len, texts)) > MAX_CHARS:
                    break
            texts.append(_form_text(reader))
    except (Exception, TimeLimitExceeded):  # noqa: BLE001, S110 - pypdf raises arbitrary errors
        pass
    text = "\n\n".join(filter(None, (text.strip() for text in texts)))
    text = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return PdfContent(text[:MAX_CHARS] or None, pages, is_locked)


def _form_text(reader: PdfReader) -> str:
    """Return a line for each form field that has a value."""
    lines = []
    for name, form_field in (reader.get_fields() or {}).items():
        value = form_field.get("/V")
        value = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if value.strip() and value != "/Off":
            lines.append(f"{form_field.get('/TU') or name}: {value.removeprefix('/')}")
    return "\n".join(lines)


def parse_tnef(content: bytes) -> TnefFields | None:
    """Return {"names", "body"} with the bytes of the files, followed by those of the body.

    "body" is "plain", "html" or None; RTF becomes plain text. Returns None for damaged TNEF or another format.
    """
    if not content.startswith(_TNEF_SIGNATURE):
        return None
    try:
        with time_limit(TNEF_SECONDS):
            tnef = TNEF(content, do_checksum=False)
            files = [(str(attachment.long_filename() or ""), bytes(attachment.data or b""))
                     for attachment in tnef.attachments]  # fmt: skip
            body_type, body = next(_bodies(tnef), (None, b""))
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - tnefparse raises arbitrary errors
        return None
    fields = {"names": [name for name, _ in files], "body": body_type}
    return fields, [*(data for _, data in files), body]


def _bodies(tnef: TNEF) -> Iterator[tuple[str, bytes]]:
    bodies = (
        ("plain", lambda: tnef.body),
        ("html", lambda: tnef.htmlbody),
        ("plain", lambda: rtf_text(tnef.rtfbody)),
    )
    for body_type, read in bodies:
        if text := read():
            content = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
            yield body_type, content


def rtf_text(content: bytes | None) -> str:
    text = (content or b"").decode("cp1252", "replace")
    return str(rtf_to_text(text, errors="replace")).strip()


_DELETED = frozenset(("del", "moveFrom", "tracked-changes"))
_DRAWN = frozenset(("p", "comment", "threadedComment", "v"))
_BLANKS = frozenset(("tab", "br", "cr", "noBreakHyphen", "ptab"))
_NOT_TEXT = frozenset(("note-citation", "ruby-text", "rt", "instrText", "delText", "pPr", "rPr"))
_COMMENT_AUTHOR = "{http://purl.org/dc/elements/1.1/}"
_BEFORE = {"den": "/", "sup": "^", "sub": "_"}
"""Marks before parts of a formula."""
_MARK = re.compile(r"\(\w+:\S*\)|\[[^\[\]\s]{0,8}\d+\]")
"""Targets of links and numbers of notes, which the libraries add to a text."""
_REPEATED_BLANKS = 100
_CELL = ("table-cell", "covered-table-cell")
_NUMBERS = frozenset(("float", "percentage", "currency", "date"))


def name_of(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Element, name: str) -> str:
    found = (value for key, value in element.attrib.items() if key.rpartition("}")[2] == name)
    return next(found, "")


def missing_lines(lines: Iterable[str], text: str) -> Iterator[str]:
    """Yield those of the lines whose words the text has not, each once."""
    known = {_words(line) for line in text.split("\n")}
    whole = _words(text)
    for line in lines:
        words = _words(line)
        if words and words not in known and words not in whole:
            known.add(words)
            yield line


def _words(text: str) -> str:
    return "".join(re.findall(r"\w+", _MARK.sub("", text)))


def drawn_lines(archive: zipfile.ZipFile, parts: re.Pattern[str]) -> Iterator[str]:
    """Yield the paragraphs, comments and values of charts in some parts of an OOXML file."""
    in_deleted_row = False
    for element in _elements(archive, parts):
        name = name_of(element)
        if name == "trPr":
            in_deleted_row = any(name_of(child) == "del" for child in element)
        elif name == "tr":
            in_deleted_row = False
        elif name in _DRAWN or (name == "text" and "presentationml" in element.tag):
            if not in_deleted_row and (text := "".join(_inline(element, [])).strip()):
                where = attribute(element, "ref")
                yield f"{where}: {text}" if where else text
            element.clear()


def link_targets(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the addresses that links of sheets and slides lead to."""
    for element in _elements(archive, _LINKS):
        if element.get("Type", "").endswith("/hyperlink"):
            yield element.get("Target", "")


def _elements(archive: zipfile.ZipFile, parts: re.Pattern[str]) -> Iterator[Element]:
    for name in sorted(filter(parts.fullmatch, archive.namelist())):
        with archive.open(name) as part:
            for _, element in iterparse(part):  # noqa: S314 - expat limits entities, and the sandbox memory
                yield element


def opendocument_lines(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the paragraphs, and the rows of spreadsheets, then what each page of a text repeats."""
    with archive.open("content.xml") as stream:
        yield from _opendocument_lines(stream, "")
    if "styles.xml" in archive.namelist() and b".text" in archive.read("mimetype"):
        with archive.open("styles.xml") as stream:
            yield from _opendocument_lines(stream, "master-styles")


def _opendocument_lines(stream: IO[bytes], only_within: str) -> Iterator[str]:
    open_names: list[str] = []
    for event, element in iterparse(stream, events=("start", "end")):  # noqa: S314
        name = name_of(element)
        if event == "start":
            open_names.append(name)
            if name == "table" and "spreadsheet" in open_names:
                yield f"\n{attribute(element, 'name')}"
            continue
        open_names.pop()
        is_outside = only_within != "" and only_within not in open_names
        if is_outside or not _DELETED.isdisjoint(open_names):
            element.clear()
        elif name == "table-row" and "spreadsheet" in open_names:
            yield from _row_lines(element)
            element.clear()
        # Rows count in a spreadsheet only, whose cells are read together.
        elif (
            name in ("p", "h")
            and not {"p", "h"}.intersection(open_names)
            and not ("table-row" in open_names and "spreadsheet" in open_names)
        ):
            lines: list[str] = []
            text = "".join(_inline(element, lines))
            yield from (text, *lines)
            element.clear()


def _inline(element: Element, lines: list[str]) -> Iterator[str]:
    """Yield the text of an element; paragraphs in it, such as notes, are added to ``lines``."""
    yield element.text or ""
    for child in element:
        name = name_of(child)
        if name in ("p", "h"):
            lines.append("".join(_inline(child, lines)))
        elif name == "s":
            yield " " * min(int(attribute(child, "c") or 1), _REPEATED_BLANKS)
        elif name in _BLANKS or name == "line-break":
            yield " "
        elif name not in _DELETED | _NOT_TEXT and not str(child.tag).startswith(_COMMENT_AUTHOR):
            yield _BEFORE.get(name, "")
            text = "".join(_inline(child, lines))
            yield text
            if (target := attribute(child, "href")) and name == "a" and target not in text:
                yield f" ({target})"
        yield child.tail or ""


def _row_lines(row: Element) -> Iterator[str]:
    """Yield the line of a row as often as the row is repeated; empty ones are left out."""
    values: list[str] = []
    lines: list[str] = []
    for cell in row:
        if name_of(cell) in _CELL:
            value = _cell_value(cell, lines)
            repeated = int(attribute(cell, "number-columns-repeated") or 1)
            values += [value] * (repeated if value else min(repeated, _REPEATED_BLANKS))
    if line := " | ".join(values).rstrip(" |"):
        yield from (line for _ in range(int(attribute(row, "number-rows-repeated") or 1)))
    yield from lines


def _cell_value(cell: Element, lines: list[str]) -> str:
    """Return the value of a cell; an error is shown as it is displayed. Notes are lines."""
    texts = ["".join(_inline(each, lines)) for each in cell if name_of(each) == "p"]
    for each in cell:
        if name_of(each) != "p":
            lines.append("".join(_inline(each, lines)))
    shown, kind = "\n".join(texts), attribute(cell, "value-type")
    if kind not in _NUMBERS or shown.startswith(("#", "Err:")):
        return shown
    return attribute(cell, "date-value" if kind == "date" else "value") or shown


MEDIA_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
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


def extract_office_text(content: bytes) -> OfficeText:
    """Return the text of a file; its content decides the format, not its name.

    Of a file that takes too long, or is damaged behind its start, the text before that is returned.
    """
    if content.startswith(olefile.MAGIC[:4]):
        return OfficeText(issue=_issue_of_container(content))
    lines: list[str] = []
    issue = None
    try:
        with time_limit(OFFICE_SECONDS):
            lines.extend(_lines(content))  # keeps those before an error
    except ImportError:
        return OfficeText(issue=ReceiptCode.NEEDS_OFFICE)
    except _LockedError:
        return OfficeText(issue=ReceiptCode.LOCKED)
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - the libraries raise arbitrary errors
        issue = ReceiptCode.PARTLY_IMPORTED
    text = normalize_whitespace("\n".join(lines))
    return OfficeText(text, issue) if text else OfficeText(issue=ReceiptCode.NO_TEXT)


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
    # Some programs save .doc so.
    if content.lstrip()[:9].lower().startswith((b"<html", b"<!doctype")):
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
    boxed = _CHECKBOX.sub(lambda box: "☒ " if "checked=" in box[0] else "☐ ", result.value)
    text = html_to_text(boxed)
    yield text
    # The library leaves out what each page repeats, formulas and some text boxes.
    yield from missing_lines(drawn_lines(archive, _WORD_PARTS), text)


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
    yield from (link for link in dict.fromkeys(link_targets(archive)) if link not in text)


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
    yield from (link for link in dict.fromkeys(link_targets(archive)) if link not in text)


def _shape_texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shape_texts(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from _rows([cell.text for cell in row.cells] for row in shape.table.rows)
        elif shape.has_text_frame:
            yield shape.text_frame.text


DEFAULT_MEDIA_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}")
_NEEDS_EXTRA = (ReceiptCode.NEEDS_OFFICE, ReceiptCode.NEEDS_OCR, ReceiptCode.PICTURES_NEED_OCR)
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
    guess = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name or "", strict=False)[0]
    return guess or DEFAULT_MEDIA_TYPE


def read_attached(file: ExportFile | None, item: ParsedItem, *, name: str) -> bytes | None:
    """Return the content of a file of the export; a missing or too large one is an issue."""
    code = ReceiptCode.FILE_MISSING
    try:
        if file is not None:
            return file.read(max_bytes=limits.BLOB_MAX_BYTES)
    except UnreadableError as error:
        if error.issue.code is ReceiptCode.TOO_LARGE:
            code = ReceiptCode.FILE_TOO_LARGE
    item.add_issue(code, detail=name)
    return None


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
    before, pages, blob_ref = len(item.issues), None, None
    if text is None:
        text, pages = _extract_text(content, media_type=media_type, charset=charset, item=item)
        if any(issue.code in _NEEDS_EXTRA for issue in item.issues[before:]):
            item.unread_texts.add(key)
    if len(content) > limits.BLOB_MAX_BYTES:
        item.add_issue(ReceiptCode.FILE_TOO_LARGE, detail=f"{len(content):,} bytes")
    else:
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
    if name:
        item.issues[before:] = [
            Issue(issue.code, ": ".join(filter(None, (name[:80], issue.detail))))
            for issue in item.issues[before:]
        ]
    return AttachmentFields(media_type, text, pages, blob_ref)


def _extract_text(
    content: bytes, *, media_type: str, charset: str | None, item: ParsedItem
) -> tuple[str | None, int | None]:
    """Return the text, and the number of pages of a PDF."""
    pages = None
    if media_type == "application/pdf":
        text, pages, is_locked = parse_pdf(content)
        if text is None and pages and not is_locked:
            text = recognize_pdf(content, item)
        elif text is None:
            item.add_issue(ReceiptCode.LOCKED if is_locked else ReceiptCode.NO_TEXT)
    elif media_type in MEDIA_TYPES.values() or content.startswith(_RTF):  # mail calls RTF text
        text, issue = extract_office_text(content)
        item.issues += [] if issue is None else [Issue(issue)]
    elif media_type in PICTURE_TYPES.values():
        text = recognize_attached_picture(content, item)
    elif media_type == "text/html":
        text = html_to_text(decode(text_prefix(content), charset))
    elif media_type.startswith(("text/", "message/")) or media_type in _TEXT_TYPES:
        text = decode(text_prefix(content), charset)
    else:
        return None, None
    return item.cut_text(text or "") or None, pages
