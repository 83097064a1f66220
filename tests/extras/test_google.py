"""Chat and Tasks of Google Takeout."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from importers.authoring.test_kit import read_export
from tests.importers.imports import latest, receipts, records, run
from tests.importers.torture_kit import GeneratedExportTests, issue_codes
from tests.importers.year_of_takeout import write_json, write_takeout


class TestGoogleChat(GeneratedExportTests):
    importer_name = "google-chat"
    writer = staticmethod(write_takeout)


class TestGoogleTasks(GeneratedExportTests):
    importer_name = "google-tasks"
    writer = staticmethod(write_takeout)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_takeout(tmp_path / "year", days=365)

    run(tmp_path / "year")

    assert sum(record["status"] == "open" for record in records("tasks")) == truth.open_tasks
    assert Counter(record["author"] for record in records("messages")) == truth.messages
    assert receipts() == set()
    run(tmp_path / "year")
    assert (latest().created, latest().updated) == (0, 0)


def test_deleted_messages_have_a_receipt_and_files_are_attached(tmp_path: Path) -> None:
    folder = tmp_path / "Google Chat" / "Groups" / "Space one"
    node: dict[str, Any] = {
        "creator": {"name": "Ana", "email": "ana@example.org"},
        "created_date": "Donnerstag, 5. März 2026 um 16:24:37 UTC",
        "text": "Seht euch das an",
        "message_id": "one/1/1",
        "attached_files": [{"original_name": "a.txt", "export_name": "File-a.txt"}],
    }
    deleted = node | {"message_id": "one/1/2", "message_state": "DELETED"}
    write_json(folder / "messages.json", {"messages": [node, deleted]})
    (folder / "File-a.txt").write_text("words in a file")

    result = read_export("google-chat", tmp_path)

    message = next(record for record in result.records if "author" in record)
    assert message["sent_at"] == "2026-03-05T16:24:37Z"
    assert "words in a file" in [record.get("text") for record in result.records]
    assert issue_codes(result.issues) == {"deleted"}


@pytest.mark.parametrize(
    ("annotation", "text", "codes"),
    [
        ({"drive_metadata": {"title": "Plan"}}, "Plan", set()),
        ({"youtube_metadata": {"id": "abc"}}, "https://youtu.be/abc", set()),
        ({"video_call_metadata": {"meeting_space": {"meeting_url": "https://m.example"}}},
         "https://m.example", set()),
        ({"interaction_data": {}}, None, {"partly_imported"}),
    ],
)  # fmt: skip
def test_chat_message_without_text_has_its_annotation_or_a_receipt(
    tmp_path: Path, annotation: dict[str, Any], text: str | None, codes: set[str]
) -> None:
    node = {
        "creator": {"name": "Ana", "email": "ana@example.org"},
        "created_date": "Donnerstag, 5. März 2026 um 16:24:37 UTC",
        "message_id": "one/1/1",
        "annotations": [annotation],
    }
    folder = tmp_path / "Google Chat" / "Groups" / "Space one"
    write_json(folder / "messages.json", {"messages": [node]})

    result = read_export("google-chat", tmp_path)

    assert next(each for each in result.records if "author" in each)["text"] == text
    assert issue_codes(result.issues) == codes
