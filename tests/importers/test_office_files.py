"""Word, Excel, PowerPoint and OpenDocument files, as documents and as attachments."""

import io
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from importers.core.office_files import extract_office_text
from importers.core.results import ReceiptCode
from tests.importers.imports import receipts, records, run
from tests.importers.needs import OFFICE, OPEN_DOCUMENTS, WORD_FILES, optional_module

openpyxl, pptx = optional_module("openpyxl"), optional_module("pptx")

pytestmark = [pytest.mark.django_db, OFFICE, WORD_FILES, OPEN_DOCUMENTS]

docx, odfdo = optional_module("docx"), optional_module("odfdo")


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Lease")
    document.add_paragraph("The rent is 900 €.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Landlady", "Eva Müller"
    return saved(document)


def excel() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.title = "Budget"
    workbook.active.append(["Rent", 900, None])
    workbook.active.append([None, None])
    workbook.create_sheet("Notes").append(["Tea für Eva"])
    return saved(workbook)


def powerpoint() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Trip to Rome"
    table = slide.shapes.add_table(1, 2, 0, 0, 9_144, 9_144).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Day", "Café"
    slide.notes_slide.notes_text_frame.text = "Speak slowly"
    return saved(presentation)


def opendocument_text() -> bytes:
    document = odfdo.Document("text")
    document.body.append(odfdo.Paragraph("Grüße aus Rom"))
    return saved(document)


def opendocument_spreadsheet() -> bytes:
    document = odfdo.Document("spreadsheet")
    document.body.clear()
    table = odfdo.Table("Budget")
    table.set_values([["Rent", 900]])
    document.body.append(table)
    return saved(document)


def saved(document: object) -> bytes:
    content = io.BytesIO()
    document.save(content)  # type: ignore[attr-defined] # each library names it so
    return content.getvalue()


FILES = {
    "a.docx": (word, ["Lease", "The rent is 900 €.", "Landlady", "Eva Müller"]),
    "a.xlsx": (excel, ["Budget", "Rent | 900", "Notes", "Tea für Eva"]),
    "a.pptx": (powerpoint, ["Trip to Rome", "Day | Café", "Speak slowly"]),
    "a.odt": (opendocument_text, ["Grüße aus Rom"]),
    "a.ods": (opendocument_spreadsheet, ["Budget", "Rent | 900"]),
}


@pytest.mark.parametrize("name", FILES)
def test_attachments_have_their_text(tmp_path: Path, name: str) -> None:
    make, expected = FILES[name]
    message = EmailMessage()
    message["From"], message["Message-ID"] = "a@example.org", "<1@x>"
    message.set_content("See the file")
    message.add_attachment(make(), maintype="application", subtype="octet-stream", filename=name)
    (tmp_path / "a.eml").write_bytes(bytes(message))

    run(tmp_path / "a.eml")

    text = records("attachments")[0]["text"]
    assert [each for each in expected if each not in text] == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"PK\x03\x04 broken", "no_text"),
        (b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"), "locked"),
    ],
)
def test_unreadable_files_have_a_receipt(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "a.docx").write_bytes(content)

    run(tmp_path / "a.docx")

    assert receipts() == {(code, "a.docx")}
    assert records("documents")[0]["text"] is None


def test_receipt_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    content = word()
    monkeypatch.setitem(sys.modules, "mammoth", None)

    assert extract_office_text(content).issue is ReceiptCode.NEEDS_OFFICE
