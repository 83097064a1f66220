"""Folders of documents, and location history."""

import pytest

from tests.importers.imports import TORTURE, content, one, receipts, records, run

pytestmark = pytest.mark.django_db


def test_text_markdown_and_pdf_files_are_imported() -> None:
    output = run(TORTURE / "notes")

    assert "skipped: picture.raw" in output
    assert one("documents", path="notes/recipes/bread.md")["title"] == "Sourdough bread"
    assert one("documents", title="plain.txt")["text"].startswith("Überall stehen Bäume")
    contract = one("documents", title="contract.pdf")
    assert contract["pages"] == 1
    assert "The excess is 300 euros." in contract["text"]
    assert content(contract["blob_ref"]).startswith(b"%PDF")


def test_invalid_pdf_is_stored_without_text() -> None:
    run(TORTURE / "notes")

    assert one("documents", title="broken.pdf")["text"] is None
    assert receipts() == {("no_text", "broken.pdf"), ("not_recognised", "picture.raw")}


def test_all_location_history_formats_are_imported() -> None:
    run(TORTURE / "places")

    assert one("visits", name="Cartolab")["latitude"] == 52.52
    assert one("visits", kind="cycling")["distance_m"] == 4200
    assert one("visits", name="HOME")["longitude"] == 13.4
    assert one("visits", kind="in bus")["end_latitude"] == 52.6
    assert [record["accuracy_m"] for record in records("points")].count(20) == 1
    assert receipts() == {("bad_date", "item 3"), ("malformed", "item 4")}
