"""Word files as attachments, and without the extra."""

import io
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from importers.core.file_texts import extract_office_text
from importers.core.results import ReceiptCode
from tests.importers.imports import records, run
from tests.importers.needs import OFFICE, WORD_FILES, optional_module

pytestmark = [pytest.mark.django_db, OFFICE, WORD_FILES]

docx = optional_module("docx")


def word() -> bytes:
    document, content = docx.Document(), io.BytesIO()
    document.add_paragraph("The rent is 900 €.")
    document.save(content)
    return content.getvalue()


def test_attachment_has_its_text(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Message-ID"] = "a@example.org", "<1@x>"
    message.set_content("See the file")
    message.add_attachment(
        word(), maintype="application", subtype="octet-stream", filename="a.docx"
    )
    (tmp_path / "a.eml").write_bytes(bytes(message))

    run(tmp_path / "a.eml")

    assert records("attachments")[0]["text"] == "The rent is 900 €."


def test_receipt_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    content = word()
    monkeypatch.setitem(sys.modules, "mammoth", None)

    assert extract_office_text(content).issue is ReceiptCode.NEEDS_OFFICE
