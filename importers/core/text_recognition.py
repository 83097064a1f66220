"""Recognize the text of pictures and of scanned PDF files with Tesseract.

The libraries are the extra ``ocr``. They are imported when a file needs them. They run within the
process: the sandbox starts no program.
"""

import io
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from importers.core import isolation
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.text import normalize_whitespace

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}
SCAN_SUFFIXES = (".pdf", *PICTURE_TYPES)
DATA_FOLDERS = (Path("/usr/share/tesseract-ocr"), Path("/usr/share/tessdata"))
"""Folders of language data of Linux distributions."""
LANGUAGES_VARIABLE = "PDPP_OCR_LANGUAGES"
MAX_LANGUAGES = 3
MAX_PAGES = 50
PAGE_DPI = 300
PAGE_PIXELS = 10_000_000
PAGE_SIDE = 20_000
"""Larger pages are made smaller: an A4 page of 300 dpi has 8.7 million pixels."""
PICTURE_PIXELS = 50_000_000
"""Larger pictures are not decoded."""
ATTACHED_MIN_BYTES = 4_000
ATTACHED_MIN_CONFIDENCE = 60
RECENT_PICTURES = 1_000
CPU_RESERVE_SECONDS = 120.0
"""CPU time that remains for everything else before this process is ended."""
_MODULES = ("PIL", "pypdfium2", "tesserocr")


class Languages(NamedTuple):
    """Languages for Tesseract, such as eng+deu, and the folder of their data."""

    names: str
    folder: Path


class TooManyPixelsError(Exception):
    """A picture has more than ``PICTURE_PIXELS``."""


class RecognizedText(NamedTuple):
    """The text of the first ``done`` pages, and its mean confidence in percent."""

    text: str
    confidence: int
    done: int
    pages: int


def is_installed() -> bool:
    """Return whether the extra and the data of a language are installed."""
    return all(map(find_spec, _MODULES)) and find_languages() is not None


def find_languages() -> Languages | None:
    """Return the languages that the owner set, or else those that are installed, English first.

    Of several folders with data, the one with most of these languages counts.
    """
    chosen = os.environ.get(LANGUAGES_VARIABLE, "").replace(",", "+").split("+")
    chosen = [name.strip() for name in chosen if name.strip()]
    found = []
    for folder in (*DATA_FOLDERS, Path(sys.prefix, "share/tessdata")):
        for data in (folder, *sorted(folder.glob("*/tessdata"), reverse=True)):
            installed = {path.stem for path in data.glob("*.traineddata")} - {"osd", "equ"}
            usual = sorted(installed, key=lambda name: (name != "eng", name))
            names = [name for name in chosen or usual if name in installed]
            found.append(Languages("+".join(names[:MAX_LANGUAGES]), data))
    best = max(found, key=lambda each: len(each.names.split("+")) if each.names else 0)
    return best if best.names else None


def recognize_pdf(content: bytes, item: ParsedItem) -> str | None:
    """Return the text of a PDF that has none, and add an issue that says so."""
    if not is_installed():
        item.add_issue(ReceiptCode.NEEDS_OCR)
        return None
    try:
        found = _recognize(_pdf_pages(content), item)
    except Exception:  # noqa: BLE001 - the libraries raise arbitrary errors
        item.add_issue(ReceiptCode.NO_TEXT)
        return None
    return _report(found, item, if_empty=ReceiptCode.NO_TEXT)


def recognize_picture(content: bytes, item: ParsedItem) -> str | None:
    """Return the text of a picture, and add an issue that says so, or why there is none."""
    try:
        found = _recognize(_picture_pages(content), item)
    except TooManyPixelsError:
        item.add_issue(ReceiptCode.TOO_LARGE, detail=f"more than {PICTURE_PIXELS:,} pixels")
        return None
    except Exception as error:  # noqa: BLE001 - the libraries raise arbitrary errors
        item.add_issue(ReceiptCode.UNREADABLE, detail=type(error).__name__)
        return None
    return _report(found, item, if_empty=ReceiptCode.PICTURE_WITHOUT_TEXT)


def recognize_attached_picture(content: bytes, item: ParsedItem) -> str | None:
    """Return the text of a picture in a mail, chat or note, and add an issue that says so.

    Most of them are photos, whose text is noise, or the logo that every mail of a sender has.
    """
    if len(content) < ATTACHED_MIN_BYTES:
        return None
    if not is_installed():
        item.add_issue(ReceiptCode.PICTURES_NEED_OCR)
        return None
    digest = sha256(content).digest()
    found = _recent.pop(digest, None)
    try:
        found = found or _recognize(_picture_pages(content), item)
    except Exception:  # noqa: BLE001 - the libraries raise arbitrary errors
        return None
    if found.done == found.pages:
        _recent[digest] = found
        if len(_recent) > RECENT_PICTURES:
            del _recent[next(iter(_recent))]
        if found.confidence < ATTACHED_MIN_CONFIDENCE:
            return None
    return _report(found, item)


_recent: dict[bytes, RecognizedText] = {}
"""What was recognized in the latest attached pictures, by digest."""


def _report(
    found: RecognizedText, item: ParsedItem, *, if_empty: ReceiptCode | None = None
) -> str | None:
    if found.done < found.pages:
        pages = f"{found.done} of {found.pages} pages"
        item.add_issue(ReceiptCode.PAGES_LEFT_OUT, detail=pages)
    if not found.text:
        if if_empty is not None:
            item.add_issue(if_empty)
        return None
    confidence = f"mean confidence {found.confidence} %"
    item.add_issue(ReceiptCode.TEXT_RECOGNIZED, detail=confidence)
    return found.text


def _recognize(pages: Iterator[tuple[int, "Image"]], item: ParsedItem) -> RecognizedText:
    """Return the text of pages, each with the number of all pages, within the time of the item."""
    os.environ["OMP_THREAD_LIMIT"] = "1"
    from tesserocr import PSM, PyTessBaseAPI

    languages = find_languages()
    if languages is None:
        raise LookupError("no language data")
    texts, done, total = list[tuple[str, int]](), 0, 0
    seconds = min(item.recognition_seconds, isolation.cpu_seconds_left() - CPU_RESERVE_SECONDS)
    folder, deadline = f"{languages.folder}/", time.monotonic() + seconds
    try:
        with PyTessBaseAPI(folder, languages.names, psm=PSM.AUTO) as tesseract:
            # To stderr: Tesseract crashes if it cannot open the file for its messages.
            tesseract.SetVariable("debug_file", "")
            for count, page in pages:
                total = count
                tesseract.SetImage(page)
                left = int((deadline - time.monotonic()) * 1000)
                if left <= 0 or not tesseract.Recognize(left):
                    break
                done += 1
                if text := normalize_whitespace(tesseract.GetUTF8Text()):
                    texts.append((text, tesseract.MeanTextConf()))
    finally:
        item.recognition_seconds = deadline - time.monotonic()
    confidence = sum(each for _, each in texts) // max(len(texts), 1)
    return RecognizedText("\n\n".join(text for text, _ in texts), confidence, done, total)


def _pdf_pages(content: bytes) -> Iterator[tuple[int, "Image"]]:
    import pypdfium2

    with closing(pypdfium2.PdfDocument(content)) as document:
        for number in range(min(len(document), MAX_PAGES)):
            with closing(document[number]) as page:
                width, height = page.get_size()
                scale = min(
                    PAGE_DPI / 72,
                    math.sqrt(PAGE_PIXELS / max(width * height, 1)),
                    PAGE_SIDE / max(width, height, 1),
                )
                with closing(page.render(scale=scale, grayscale=True)) as bitmap:
                    yield len(document), bitmap.to_pil()


def _picture_pages(content: bytes) -> Iterator[tuple[int, "Image"]]:
    """Yield the pages of a TIFF, or one picture. Raises ``TooManyPixelsError`` before decoding."""
    from PIL import Image, ImageOps

    try:
        picture = Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "TIFF"))
    except Image.DecompressionBombError:
        raise TooManyPixelsError from None
    total = getattr(picture, "n_frames", 1) if picture.format == "TIFF" else 1
    for number in range(min(total, MAX_PAGES)):
        picture.seek(number)
        if picture.width * picture.height > PICTURE_PIXELS:
            raise TooManyPixelsError
        picture.draft("L", picture.size)
        page = ImageOps.exif_transpose(_flatten(picture))
        shrink = math.sqrt(PAGE_PIXELS / (page.width * page.height))
        if shrink < 1:
            page.thumbnail((page.width * shrink, page.height * shrink))
        yield total, page


def _flatten(picture: "Image") -> "Image":
    """Return a picture in shades of gray, on white where it is transparent."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture.convert("L")
    shades = picture.convert("LA")
    page = Image.new("L", picture.size, 255)
    page.paste(shades.getchannel("L"), mask=shades.getchannel("A"))
    return page
