"""Notes of Evernote, Notion and Markdown vaults."""

import zipfile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from importers.authoring.test_kit import read_export
from importers.core.importer import Options
from tests.importers.imports import latest, one, receipts, records, run
from tests.importers.torture_kit import GeneratedExportTests, issue_codes
from tests.importers.year_of_notes import notion_id, write_enex, write_notion, write_vault


class TestEvernote(GeneratedExportTests):
    importer_name = "evernote"
    damaged_days = 6
    writer = staticmethod(write_enex)
    file_name = "Notebook.enex"


class TestNotion(GeneratedExportTests):
    importer_name = "notion"
    damaged_days = 6
    writer = staticmethod(write_notion)


class TestVault(GeneratedExportTests):
    importer_name = "documents"
    damaged_days = 6
    writer = staticmethod(write_vault)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_evernote_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_enex(tmp_path / "Notebook.enex", days=365)

    run(tmp_path / "Notebook.enex")

    notes = [record for record in records("documents") if "parent_id" not in record]
    assert {note["title"]: (note["modified_at"], note["text"]) for note in notes} == truth
    assert {note["folder"] for note in notes} == {"Notebook"}
    files = [record for record in records("documents") if "parent_id" in record]
    assert len(files) == len(truth)
    assert files[0]["text"].startswith("attached words")
    run(tmp_path / "Notebook.enex")
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_notion_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_notion(tmp_path / "parts", days=365)
    with zipfile.ZipFile(tmp_path / "Part-1.zip", "w") as part:
        for path in sorted((tmp_path / "parts").rglob("*.*")):
            part.write(path, path.relative_to(tmp_path / "parts"))
    with zipfile.ZipFile(tmp_path / "Export.zip", "w") as archive:
        archive.write(tmp_path / "Part-1.zip", "ExportBlock-1-Part-1.zip")

    run(tmp_path / "Export.zip", timezone="Europe/Berlin")

    pages = {record["title"]: record for record in records("documents")}
    assert {title: pages[title]["text"] for title in truth} == truth
    assert pages["Day 0"]["created_at"] == "2025-01-01T06:30:00Z"
    assert pages["Day 0"]["tags"] == ["home", "work"]
    assert pages["Day 0"]["parent_id"] == pages["Days"]["id"]
    assert pages["Home"]["text"].startswith("Hours: none")
    assert pages["a.txt"]["parent_id"] == pages["Home"]["id"]
    assert len(pages["Days"]["text"].splitlines()) == len(truth) + 1
    assert receipts() == set()


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_a_vault_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_vault(tmp_path / "vault", days=365)

    run(tmp_path / "vault")

    notes = {
        note["title"]: (note["text"].strip(), set(note["tags"])) for note in records("documents")
    }
    assert notes == truth
    note = one("documents", title="Note 0")
    assert note["created_at"] == "2025-01-01T07:30:05Z"
    assert "status: done" in note["properties"]


@pytest.mark.parametrize(
    ("front", "fields", "codes"),
    [
        ("tags: a, b c\nurl: https://a.example/", {"tags": ["a", "b c"], "url": "https://a.example/"}, set()),
        ("tags:\n  - '#a'\n  - a\nDate: 2025-03-01", {"tags": ["a"], "created_at": "2025-02-28T23:00:00Z"}, set()),
        ("created: 2025-03-01 10:00", {"created_at": "2025-03-01T09:00:00Z"}, set()),
        ("created: tomorrow", {"properties": ["created: tomorrow"]}, set()),
        ("count: 012\nyes: no", {"properties": ["count: 012", "yes: no"]}, set()),
        ("a: &x [1]\nb: [*x, *x]", {}, {"bad_properties"}),
        ("a: b: c", {}, {"bad_properties"}),
        ("- list", {}, {"bad_properties"}),
        ("a: " + "[" * 5_000, {}, {"bad_properties"}),
        ("? [a, b]\n: c", {}, {"bad_properties"}),
        ("!!python/object/apply:os.system [ls]", {}, {"bad_properties"}),
    ],
)  # fmt: skip
def test_front_matter_is_read_or_has_a_receipt(
    front: str, fields: dict[str, Any], codes: set[str], tmp_path: Path
) -> None:
    note = tmp_path / "note.md"
    note.write_text(f"---\n{front}\n---\n# Heading\nText\n")

    result = read_export("documents", note, Options(zone=ZoneInfo("Europe/Berlin")))

    (record,) = result.records
    assert {name: record.get(name) for name in fields} == fields
    assert issue_codes(result.issues) == codes
    assert record["text"].startswith("# Heading" if not codes else "---")
    assert record["title"] == "Heading"


def test_enex_with_entities_secrets_and_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "Notebook.enex"
    path.write_text(
        '<?xml version="1.0"?><!DOCTYPE en-export [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;">]>'
        "<en-export><note><title>One</title><content><![CDATA[<en-note>a<en-crypt hint='x'>c2Vj</en-crypt>"
        '<ul><li style="--en-checked:true;">Done</li></ul><en-todo checked="false"/>Open'
        "<script>alert(1)</script></en-note>]]></content><created>20250101T000000Z</created>"
        "<resource><data encoding='base64'>!!!</data><mime>image/png</mime></resource></note>"
        "<note><title>Two</title><created>yesterday</created></note>"
        "<note><title>Three</title><created>20250103T000000Z</created><content>cut"
    )

    result = read_export("evernote", path)

    assert [record["title"] for record in result.records] == ["One", "Two"]
    assert result.records[0]["text"].split() == ["a[encrypted]", "[x]", "Done", "[", "]", "Open"]
    assert issue_codes(result.issues) == {"partly_encrypted", "file_missing", "bad_date", "damaged"}


def test_notion_page_without_database_keeps_lines_with_colons(tmp_path: Path) -> None:
    page = tmp_path / "export" / f"Recipe {notion_id(7)}.md"
    page.parent.mkdir()
    page.write_text("# Recipe\n\nFlour: 500 g\n\nBake it.\n")

    result = read_export("notion", page.parent)

    assert result.records[0]["text"] == "Flour: 500 g\n\nBake it."


@pytest.mark.django_db
def test_newer_export_of_notion_changes_no_page(tmp_path: Path) -> None:
    for folder in (
        "Export-0ab7c1c3-4a57-4d8c-9a4b-1f6f6d8a1111",
        "Export-9ab7c1c3-4a57-4d8c-9a4b-1f6f6d8a2222",
    ):
        page = tmp_path / folder[-4:] / folder / f"Recipe {notion_id(7)}.md"
        page.parent.mkdir(parents=True)
        page.write_text("# Recipe\n\nFlour\n")
        run(tmp_path / folder[-4:])

    assert (latest().created, latest().updated) == (0, 0)
    assert records("documents")[0]["path"] == "Notion/Recipe"
