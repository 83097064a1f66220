"""Messages of Apple's chat.db."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from importers.authoring.test_kit import ImporterTests
from tests.importers.databases import (
    APPLE_EPOCH,
    CHAT_SCHEMA,
    attributed,
    write_database,
)
from tests.importers.imports import content, latest, one, receipts, records, run

AT = 1_767_600_000


def nanoseconds(seconds: float) -> int:
    return int((seconds - APPLE_EPOCH) * 10**9)


def message(number: int, **fields: Any) -> dict[str, Any]:
    base = {"guid": f"G-{number}", "date": nanoseconds(AT + number), "handle_id": 1}
    return {"ROWID": number, "is_from_me": 0} | base | fields


MESSAGES = [
    message(1, text="Keys?"),
    message(2, attributedBody=attributed("Under the mat 🔑"), is_from_me=1),
    message(3, attributedBody=attributed("long " * 20_000)),
    message(4, text="\ufffc", thread_originator_guid="G-1"),
    message(5, associated_message_guid="p:0/G-1", associated_message_type=2001, handle_id=2),
    message(6, associated_message_guid="bp:G-2", associated_message_type=2000, handle_id=1),
    message(7, associated_message_guid="bp:G-2", associated_message_type=3000, handle_id=1),
    message(8, item_type=2, group_title="Household"),
    message(9, text="An old time", date=AT - APPLE_EPOCH),
    message(10, text="No time", date=0),
    message(11, text="No id", guid=None),
    message(12, text="In no chat"),
    message(13),
    message(14, attributedBody=b"streamtyped NSString\x01\x95\x84\x01+\x82\xff\xff\xff\x7fcut"),
    message(15, attributedBody=b"NSString"),
    message(16, text=b"\xff\xfe bytes", date="text", handle_id="x", is_from_me=None),
]
FILES = [
    {"ROWID": 1, "filename": "~/Library/Messages/Attachments/0a/10/tap.txt", "mime_type": "text/plain",
     "transfer_name": "../../tap.txt", "total_bytes": 5},
    {"ROWID": 2, "filename": None, "mime_type": b"\xff", "transfer_name": None, "total_bytes": -1},
]  # fmt: skip


def write_chats(folder: Path) -> Path:
    write_database(
        folder / "chat.db",
        CHAT_SCHEMA,
        message=MESSAGES,
        handle=[{"ROWID": 1, "id": "+4915112345"}, {"ROWID": 2, "id": "eva@example.org"}],
        chat=[
            {"ROWID": 1, "guid": "iMessage;+;chat1", "display_name": "Household", "style": 43},
            {"ROWID": 2, "guid": None, "chat_identifier": "+4915112345", "style": 45},
        ],
        attachment=FILES,
        chat_handle_join=[{"chat_id": 1, "handle_id": 1}, {"chat_id": 1, "handle_id": 2}],
        chat_message_join=[{"chat_id": 1, "message_id": n} for n in range(1, 17) if n != 12],
        message_attachment_join=[
            {"message_id": 4, "attachment_id": 1},
            {"message_id": 4, "attachment_id": 2},
        ],
    )
    (folder / "Attachments/0a/10").mkdir(parents=True)
    (folder / "Attachments/0a/10/tap.txt").write_text("drips")
    return folder


@pytest.mark.django_db
def test_messages_of_imessage_are_imported(tmp_path: Path) -> None:
    path = write_chats(tmp_path / "Messages")

    run(path)

    texts = {record["text"]: record for record in records("messages")}
    assert {"Keys?", "Under the mat 🔑", "An old time", "No time"} <= texts.keys()
    assert texts["Keys?"]["author"] == "+4915112345"
    assert texts["Keys?"]["sent_at"] == "2026-01-05T08:00:01Z"
    assert texts["Keys?"]["reactions"] == ["👍 eva@example.org"]
    assert (texts["Under the mat 🔑"]["author"], texts["Under the mat 🔑"]["reactions"]) == (
        "Me",
        [],
    )
    assert texts["An old time"]["sent_at"] == "2026-01-05T08:00:00Z"
    assert texts["Named the conversation Household"]["kind"] == "system"
    attachment = one("attachments", filename="../../tap.txt")
    assert attachment["text"] == "drips"
    assert content(attachment["blob_ref"]) == b"drips"
    assert one("conversations", name="Household")["members"] == ["+4915112345", "eva@example.org"]
    assert {("no_identity", "message 11"), ("deleted", "message 12"), ("bad_date", "message 10"),
            ("not_supported", "message 13"), ("malformed", "message 15")} <= receipts()  # fmt: skip
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.django_db
def test_messages_in_the_log_of_a_database_are_imported(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "chat.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(CHAT_SCHEMA)
        database.execute("INSERT INTO chat (ROWID, guid) VALUES (1, 'c')")
        database.execute("INSERT INTO chat_message_join VALUES (1, 1)")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("INSERT INTO message (ROWID, guid, text, date) VALUES (1, 'g', 'New', 7)")
        database.commit()
        folder = tmp_path / "Messages"
        folder.mkdir()
        for name in ("chat.db", "chat.db-wal"):
            (folder / name).write_bytes((tmp_path / name).read_bytes())

    run(folder)

    assert [record["text"] for record in records("messages")] == ["New"]
    assert receipts() == set()


@pytest.mark.subprocess
class TestImessage(ImporterTests):
    importer_name = "imessage"

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.export = write_chats(tmp_path_factory.mktemp("export") / "Messages")


del ImporterTests
