"""The text of scans and pictures is recognized, within limits, and found by search."""

import io
import json
import os
import sys
from base64 import b64encode
from email.message import EmailMessage
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from importers.core import isolation, text_recognition
from importers.core.results import Issue, ParsedItem, ReceiptCode
from importers.core.text_recognition import recognize_pdf
from importers.models import ImportReceipt
from importers.runs.runner import ImportWorker
from tests.importers.imports import connection, content, receipts, records, run
from tests.importers.needs import OCR

if TYPE_CHECKING:
    from PIL.Image import Image

    from tests.world import World

pytestmark = [pytest.mark.django_db, OCR]

SENTENCE = "The boiler was serviced by Hansen on Monday."


def page(text: str = SENTENCE, mode: str = "RGB") -> "Image":
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new(mode, (1600, 400), "white")
    font = ImageFont.load_default(size=56)
    ImageDraw.Draw(picture).text((120, 140), text, font=font, fill="black")
    return picture


def saved(image_format: str, *pages: "Image", **options: object) -> bytes:
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


def dotted_page() -> "Image":
    """Return a page that Tesseract writes a message about: its dots may belong to letters."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", (1000, 480), "white")
    draw = ImageDraw.Draw(picture)
    for y in range(10, 480, 60):
        draw.text((40, y), SENTENCE, font=ImageFont.load_default(size=30), fill="black")
    numbers = Random(2)  # noqa: S311 - the same dots each time
    for _ in range(300):
        x, y = numbers.randrange(1000), numbers.randrange(480)
        draw.rectangle((x, y, x + 2, y + 2), fill="black")
    return picture


def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tesserocr", None)


@pytest.mark.subprocess
def test_messages_of_tesseract_do_not_end_the_import(world: "World", tmp_path: Path) -> None:
    run(write(tmp_path, dots_png=saved("PNG", dotted_page())))

    assert receipts() == {("text_recognized", "dots.png")}
    (record,) = (each for each in records("documents") if each["title"] == "dots.png")
    assert "boiler" in record["text"]


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


def mail_with_picture(number: int, content: bytes) -> bytes:
    message = EmailMessage()
    message["From"], message["Message-ID"] = "a@example.org", f"<{number}@x>"
    message["Date"] = "Mon, 05 Jan 2026 09:30:00 +0100"
    message.set_content("See the picture")
    message.add_attachment(content, maintype="image", subtype="png", filename="a.png")
    return bytes(message)


def write_mail_chat_and_note(folder: Path, picture: bytes) -> Path:
    """Write exports in which a picture is attached to a mail, a chat and a note."""
    export = write(folder, mail_eml=mail_with_picture(1, picture))
    (export / "chat" / "photos").mkdir(parents=True)
    (export / "chat" / "photos" / "a.jpg").write_bytes(saved("JPEG"))
    shared = {"id": 1, "type": "message", "date_unixtime": "1767600000", "from": "Eva", "text": "",
              "photo": "photos/a.jpg"}  # fmt: skip
    chat = {"name": "Eva", "type": "personal_chat", "id": 7, "messages": [shared]}
    (export / "chat" / "result.json").write_text(json.dumps(chat))
    encoded = b64encode(picture).decode()
    (export / "Notes.enex").write_text(
        "<en-export><note><title>Boiler</title><created>20260105T083000Z</created><content>&lt;en-note/&gt;</content><resource><data>"
        f"{encoded}</data><mime>image/png</mime></resource></note></en-export>"
    )
    return export


def texts_of_pictures() -> list[str | None]:
    stored = [*records("attachments"), *records("documents")]
    return [each["text"] for each in stored if str(each.get("media_type")).startswith("image/")]


def test_pictures_in_mails_chats_and_notes_have_their_text(tmp_path: Path) -> None:
    run(write_mail_chat_and_note(tmp_path, saved("PNG")))

    assert texts_of_pictures() == [SENTENCE] * 3
    assert {code for code, _ in receipts()} == {"text_recognized"}


def test_each_import_has_one_receipt_for_attached_pictures_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = write_mail_chat_and_note(tmp_path, saved("PNG"))
    for number in range(2, 9):
        (export / f"{number}.eml").write_bytes(mail_with_picture(number, saved("PNG")))
    without_extra(monkeypatch)

    output = run(export)

    assert "requirements-ocr.txt" in output
    codes = [row.code for row in ImportReceipt.unscoped.all()]
    assert codes == ["pictures_need_ocr"] * 3, "mails, chats and notes"
    assert texts_of_pictures() == [None] * 10


def test_text_of_attached_pictures_remains_when_the_extra_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = write_mail_chat_and_note(tmp_path, saved("PNG"))
    run(export)
    without_extra(monkeypatch)

    run(export)

    assert texts_of_pictures() == [SENTENCE] * 3


def test_photos_and_small_pictures_in_mails_have_no_receipt(tmp_path: Path) -> None:
    from PIL import Image

    photo = Image.effect_noise((600, 400), 90)
    pictures = [saved("PNG", photo), saved("PNG", page().resize((80, 20))), b"broken" * 2_000]
    mails = {f"{at}_eml": mail_with_picture(at, each) for at, each in enumerate(pictures)}

    run(write(tmp_path, **mails))

    assert texts_of_pictures() == [None] * 3
    assert receipts() == set()


def test_recognition_ends_before_the_cpu_time_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "cpu_seconds_left", lambda: 90.0)
    item = ParsedItem()

    assert recognize_pdf(saved("PDF"), item) is None

    assert Issue(ReceiptCode.PAGES_LEFT_OUT, "0 of 1 pages") in item.issues


def test_scans_and_pictures_in_a_watched_folder_have_their_text(tmp_path: Path) -> None:
    export = write(tmp_path, scan_pdf=saved("PDF", resolution=200), letter_png=saved("PNG"))
    for path in export.iterdir():
        os.utime(path, (1, 1))
    worker = ImportWorker(tmp_path / "work", watch=export, seconds=0)

    for _ in worker.job():
        pass

    assert [record["text"] for record in records("documents")] == [SENTENCE] * 2


def test_receipts_name_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_extra(monkeypatch)

    output = run(write(tmp_path, scan_pdf=saved("PDF"), letter_png=saved("PNG")))

    assert "requirements-ocr.txt" in output
    assert receipts() == {("needs_ocr", "scan.pdf"), ("picture_needs_ocr", "letter.png")}
    assert [record["title"] for record in records("documents")] == ["scan.pdf"]


@pytest.mark.parametrize(("languages", "code"), [("xyz", "needs_ocr"), ("xyz, eng", None)])
def test_set_languages_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: str, code: str | None
) -> None:
    monkeypatch.setenv("PDPP_OCR_LANGUAGES", languages)

    run(write(tmp_path, scan_pdf=saved("PDF")))

    assert receipts() == {(code or "text_recognized", "scan.pdf")}


@pytest.mark.slow
@pytest.mark.subprocess
def test_hostile_and_empty_pictures_have_receipts(tmp_path: Path) -> None:
    from PIL import Image

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


@pytest.mark.slow
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
