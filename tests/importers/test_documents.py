"""Folders of texts, and where somebody was."""

import pytest

from tests.importers.imports import TORTURE, content, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def test_texts_markdown_and_pdf_are_read_with_their_text() -> None:
    said = run(TORTURE / "notes")

    assert "not read: picture.raw" in said
    assert one("documents", path="notes/recipes/bread.md")["title"] == "Sourdough bread"
    assert one("documents", title="plain.txt")["text"].startswith("Überall stehen Bäume")
    contract = one("documents", title="contract.pdf")
    assert contract["pages"] == 1
    assert "The excess is 300 euros." in contract["text"]
    assert content(contract["blob_ref"]).startswith(b"%PDF")


def test_a_pdf_that_is_none_is_kept_without_its_text() -> None:
    run(TORTURE / "notes")

    assert one("documents", title="broken.pdf")["text"] is None
    assert receipts() == {("no_text", "broken.pdf"), ("not_recognised", "picture.raw")}


def test_a_file_that_changed_is_brought_up_to_date(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    notes = tmp_path_factory.mktemp("x") / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("before")
    run(notes)
    (notes / "a.txt").write_text("after")

    run(notes)

    assert (latest().created, latest().updated, latest().files) == (0, 1, 1)
    assert content(one("documents", title="a.txt")["blob_ref"]) == b"after"


def test_location_history_of_every_age_is_read() -> None:
    run(TORTURE / "places")

    assert one("visits", name="Cartolab")["latitude"] == 52.52
    assert one("visits", kind="cycling")["distance_m"] == 4200
    assert one("visits", name="HOME")["longitude"] == 13.4
    assert one("visits", kind="in bus")["end_latitude"] == 52.6
    assert [each["accuracy_m"] for each in records("points")].count(20) == 1
    assert receipts() == {("bad_date", "item 3"), ("malformed", "item 4")}
