"""The text of scans and pictures is recognized, within limits, and found by search."""

import io
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageDraw, ImageFont

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from importers.core import text_recognition
from importers.core.results import Issue, ParsedItem, ReceiptCode
from importers.core.text_recognition import recognize_pdf
from tests.importers.imports import connection, content, latest, receipts, records, run

if TYPE_CHECKING:
    from tests.world import World

pytestmark = pytest.mark.django_db

SENTENCE = "The boiler was serviced by Hansen on Monday."


def page(text: str = SENTENCE, mode: str = "RGB") -> Image.Image:
    picture = Image.new(mode, (1600, 400), "white")
    font = ImageFont.load_default(size=56)
    ImageDraw.Draw(picture).text((120, 140), text, font=font, fill="black")
    return picture


def saved(image_format: str, *pages: Image.Image, **options: object) -> bytes:
    """Return the pages, or a page with a sentence, in a format of pictures or as a PDF."""
    first, *others = pages or [page()]
    stream = io.BytesIO()
    if others:
        options |= {"save_all": True, "append_images": others}
    first.save(stream, image_format, **options)
    return stream.getvalue()


def write(folder: Path, **files: bytes) -> Path:
    """Return a folder with files: scan_pdf is scan.pdf."""
    export = folder / "in"
    export.mkdir()
    for name, written in files.items():
        (export / ".".join(name.rsplit("_", 1))).write_bytes(written)
    return export


def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tesserocr", None)


@pytest.mark.subprocess
def test_scans_and_pictures_have_their_text_and_are_found(world: "World", tmp_path: Path) -> None:
    files = {
        "scan_pdf": saved("PDF", resolution=200),
        "letter_png": saved("PNG"),
        "photo_jpg": saved("JPEG"),
        "fax_tiff": saved("TIFF", page(mode="L"), page("Page two of the fax.", mode="L")),
    }

    run(write(tmp_path, **files))

    documents = {record["title"]: record for record in records("documents")}
    assert [record["text"] for title, record in documents.items() if title != "fax.tiff"] == [
        SENTENCE
    ] * 3
    assert documents["fax.tiff"]["text"] == f"{SENTENCE}\n\nPage two of the fax."
    assert documents["photo.jpg"]["media_type"] == "image/jpeg"
    assert content(documents["letter.png"]["blob_ref"]) == files["letter_png"]
    assert receipts() == {("text_recognized", title) for title in documents}
    request = GrantRequest(
        connection_ids=[connection("Documents").connection_id],
        streams=[StreamRequest(name="documents")],
    )
    world.grant("reader", request)
    assert len(world.get("/v1/search", "reader", q="boiler Hansen").body["data"]) == 4


def test_second_import_writes_nothing(tmp_path: Path) -> None:
    export = write(tmp_path, scan_pdf=saved("PDF"), letter_png=saved("PNG"))
    run(export)

    run(export)

    assert (latest().created, latest().updated, latest().unchanged) == (0, 0, 2)


def test_attached_scan_has_its_text(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Message-ID"] = "a@example.org", "<1@x>"
    message.set_content("See the scan")
    message.add_attachment(saved("PDF"), maintype="application", subtype="pdf", filename="a.pdf")

    run(write(tmp_path, mail_eml=bytes(message)))

    assert records("attachments")[0]["text"] == SENTENCE


def test_receipts_name_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_extra(monkeypatch)

    output = run(write(tmp_path, scan_pdf=saved("PDF"), letter_png=saved("PNG")))

    assert "requirements-ocr.txt" in output
    assert receipts() == {("needs_ocr", "scan.pdf"), ("picture_needs_ocr", "letter.png")}
    assert [record["title"] for record in records("documents")] == ["scan.pdf"]


def test_text_remains_when_the_extra_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = write(tmp_path, scan_pdf=saved("PDF"), letter_png=saved("PNG"))
    run(export)
    without_extra(monkeypatch)

    run(export)

    assert [record["text"] for record in records("documents")] == [SENTENCE] * 2


@pytest.mark.parametrize(("languages", "code"), [("xyz", "needs_ocr"), ("xyz, eng", None)])
def test_set_languages_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: str, code: str | None
) -> None:
    monkeypatch.setenv("PDPP_OCR_LANGUAGES", languages)

    run(write(tmp_path, scan_pdf=saved("PDF")))

    assert receipts() == {(code or "text_recognized", "scan.pdf")}


@pytest.mark.subprocess
def test_hostile_and_empty_pictures_have_receipts(tmp_path: Path) -> None:
    picture = saved("PNG")
    huge = Image.new("1", (9_000, 9_000))
    pages = saved("TIFF", page(), huge)
    files = {
        "bomb_png": saved("PNG", Image.new("1", (20_000, 20_000))),
        "large_png": saved("PNG", huge),
        "pages_tiff": pages,
        "cut_png": picture[: len(picture) // 2],
        "text_png": b"no picture",
        "empty_png": saved("PNG", Image.new("L", (400, 400), 255)),
    }

    run(write(tmp_path, **files))

    assert records("documents") == []
    assert receipts() == {
        ("too_large", "bomb.png"),
        ("too_large", "large.png"),
        ("too_large", "pages.tiff"),
        ("unreadable", "cut.png"),
        ("unreadable", "text.png"),
        ("picture_without_text", "empty.png"),
    }


@pytest.mark.subprocess
def test_huge_page_of_a_pdf_is_made_smaller(tmp_path: Path) -> None:
    run(write(tmp_path, scan_pdf=saved("PDF", resolution=8)))

    assert records("documents")[0]["text"] == SENTENCE


def test_pages_beyond_the_limit_have_a_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_recognition, "MAX_PAGES", 1)
    scan, fax = (saved(each, page(), page("Page two.")) for each in ("PDF", "TIFF"))

    run(write(tmp_path, scan_pdf=scan, fax_tiff=fax))

    assert [record["text"] for record in records("documents")] == [SENTENCE] * 2
    codes = ("text_recognized", "pages_left_out")
    assert receipts() == {(code, name) for code in codes for name in ("scan.pdf", "fax.tiff")}


def test_scan_after_the_time_of_its_item_has_receipts() -> None:
    item = ParsedItem(recognition_seconds=0)

    assert recognize_pdf(saved("PDF"), item) is None

    assert item.issues == [
        Issue(ReceiptCode.PAGES_LEFT_OUT, "0 of 1 pages"),
        Issue(ReceiptCode.NO_TEXT),
    ]
