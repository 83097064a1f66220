"""Texts of Office files are those that the libraries read which write them."""

import io
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import receipts, records, run
from tests.importers.needs import OFFICE, OPEN_DOCUMENTS, WORD_FILES, optional_module

openpyxl, pptx = optional_module("openpyxl"), optional_module("pptx")

pytestmark = [pytest.mark.django_db, OFFICE, WORD_FILES, OPEN_DOCUMENTS]

docx, odfdo = optional_module("docx"), optional_module("odfdo")
WORDS = [
    "Miete", "café", "Größe", "Łódź", "日本", "a<b", "&amp;", "1.234,56", "x|y", "Zoë", "ends.",
]  # fmt: skip
rng = random.Random(7)  # noqa: S311 - not a secret


def sentence() -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def saved(document: Any) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def imported_words(tmp_path: Path, name: str, content: bytes) -> list[str]:
    path = tmp_path / name
    path.write_bytes(content)
    run(path)
    assert receipts() == set()
    (document,) = records("documents")
    return [word for word in document["text"].split() if word != "|"]


def test_word_has_the_words_of_python_docx(tmp_path: Path) -> None:
    document = docx.Document()
    for number in range(40):
        document.add_paragraph(sentence(), style="List Bullet" if number % 7 == 0 else None)
        if number % 10 == 0:
            document.add_heading(sentence(), level=2)
            table = document.add_table(rows=3, cols=2)
            for row in table.rows:
                for cell in row.cells:
                    cell.text = sentence()
    document.sections[0].header.paragraphs[0].text = "Briefkopf " + sentence()
    document.sections[0].footer.paragraphs[0].text = "Seite " + sentence()

    words = imported_words(tmp_path, "a.docx", saved(document))

    written = list(_word_texts(document))
    assert sorted(words) == sorted(" ".join(written).split())
    body = " ".join(" ".join(text.split()) for text in written[2:])
    assert " ".join(words).startswith(body)


def _word_texts(document: Any) -> Iterator[str]:
    section = document.sections[0]
    yield from (part.paragraphs[0].text for part in (section.header, section.footer))
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            yield from (cell.text for row in block.rows for cell in row.cells)
        else:
            yield block.text


def test_excel_has_the_values_of_openpyxl(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    for title in ("Erstes", "Zweites"):
        sheet = workbook.create_sheet(title)
        for _ in range(30):
            sheet.append([sentence(), rng.randint(-999, 999), rng.random(), None, True,
                          date(2026, 1, rng.randint(1, 28))])  # fmt: skip
    sheet.sheet_state = "hidden"

    content = saved(workbook)

    words = imported_words(tmp_path, "a.xlsx", content)
    read = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    expected = []
    for sheet in read.worksheets:
        values = [str(cell) for row in sheet.values for cell in row if cell is not None]
        expected += f"{sheet.title} {' '.join(values)}".split()
    assert words == expected


def test_powerpoint_has_the_words_of_python_pptx(tmp_path: Path) -> None:
    presentation = pptx.Presentation()
    written = []
    for number in range(1, 9):
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        texts = [sentence() for _ in range(4)]
        slide.shapes.title.text = texts[0]
        slide.shapes.add_textbox(0, 0, 99, 99).text_frame.text = texts[1]
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, 99, 99).text_frame.text = texts[2]
        slide.notes_slide.notes_text_frame.text = texts[3]
        written += [f"Slide {number}", *texts]

    words = imported_words(tmp_path, "a.pptx", saved(presentation))

    assert words == " ".join(written).split()


@pytest.mark.parametrize("kind", ["text", "spreadsheet"])
def test_opendocument_has_the_words_of_odfdo(tmp_path: Path, kind: str) -> None:
    document, texts = odfdo.Document(kind), [sentence() for _ in range(20)]
    document.body.clear()
    if kind == "text":
        for text in texts:
            document.body.append(odfdo.Paragraph(text))
        name = "a.odt"
    else:
        table = odfdo.Table("Tabelle")
        table.set_values([[text, 7] for text in texts])
        document.body.append(table)
        texts = ["Tabelle", *(f"{text} 7" for text in texts)]
        name = "a.ods"

    words = imported_words(tmp_path, name, saved(document))

    assert words == " ".join(texts).split()
