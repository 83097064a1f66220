"""Write SQLite databases as programs write them, for tests."""

import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

APPLE_EPOCH = 978_307_200

CHAT_SCHEMA = """
CREATE TABLE message (ROWID INTEGER PRIMARY KEY, guid TEXT, text TEXT, attributedBody BLOB,
    handle_id INTEGER, service TEXT, date INTEGER, date_edited INTEGER, is_from_me INTEGER,
    item_type INTEGER, group_title TEXT, associated_message_guid TEXT,
    associated_message_type INTEGER, thread_originator_guid TEXT);
CREATE TABLE handle (ROWID INTEGER PRIMARY KEY, id TEXT, service TEXT);
CREATE TABLE chat (ROWID INTEGER PRIMARY KEY, guid TEXT, chat_identifier TEXT, display_name TEXT, style INTEGER);
CREATE TABLE attachment (ROWID INTEGER PRIMARY KEY, filename TEXT, mime_type TEXT, transfer_name TEXT,
    total_bytes INTEGER);
CREATE TABLE chat_handle_join (chat_id INTEGER, handle_id INTEGER);
CREATE TABLE chat_message_join (chat_id INTEGER, message_id INTEGER);
CREATE TABLE message_attachment_join (message_id INTEGER, attachment_id INTEGER);
"""


def write_database(path: Path, schema: str, **tables: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(schema)
        for table, rows in tables.items():
            for row in rows:
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
                database.execute(statement, list(row.values()))
    return path


def attributed(text: str) -> bytes:
    """Return an archived attributed string (typedstream)."""
    content = text.encode()
    if len(content) < 0x80:
        length = struct.pack("<B", len(content))
    elif len(content) < 0x10000:
        length = b"\x81" + struct.pack("<H", len(content))
    else:
        length = b"\x82" + struct.pack("<I", len(content))
    return (
        b"\x04\x0bstreamtyped\x81\xe8\x03\x84\x01@\x84\x84\x84\x19NSMutableAttributedString\0"
        b"\x84\x84\x12NSAttributedString\0\x84\x84\x08NSObject\0\x85\x92\x84\x84\x84\x0fNSMutableString"
        b"\x01\x84\x84\x08NSString\x01\x95\x84\x01+" + length + content + b"\x86\x84\x02iI\x01\x0a"
    )
