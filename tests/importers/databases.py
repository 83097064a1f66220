"""Write SQLite databases and FIT files as programs write them, for tests."""

import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

APPLE_EPOCH = 978_307_200
WINDOWS_EPOCH = 11_644_473_600
FIT_EPOCH = 631_065_600

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
HISTORY_SCHEMAS = {
    "chrome": "CREATE TABLE urls(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR);"
    "CREATE TABLE visits(id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER);",
    "firefox": "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR);"
    "CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER);",
    "safari": "CREATE TABLE history_items(id INTEGER PRIMARY KEY, url TEXT);"
    "CREATE TABLE history_visits(id INTEGER PRIMARY KEY, history_item INTEGER, visit_time REAL, title TEXT);",
}


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


def write_history(path: Path, browser: str, visits: Iterable[tuple[Any, str, Any]]) -> Path:
    """Write (seconds since 1970, title, address) of each visit; other times are written as given."""
    rows = list(enumerate(visits, 1))

    def time(seconds: Any) -> Any:
        if not isinstance(seconds, int | float):
            return seconds
        return {
            "chrome": int((seconds + WINDOWS_EPOCH) * 1_000_000),
            "firefox": int(seconds * 1_000_000),
            "safari": seconds - APPLE_EPOCH,
        }[browser]

    pages, visit = {
        "chrome": ("urls", "visits"),
        "firefox": ("moz_places", "moz_historyvisits"),
        "safari": ("history_items", "history_visits"),
    }[browser]
    tables: dict[str, list[dict[str, Any]]] = {pages: [], visit: []}
    for number, (seconds, title, url) in rows:
        page, at = {"id": number, "url": url}, {"id": number}
        if browser == "safari":
            at |= {"history_item": number, "visit_time": time(seconds), "title": title}
        elif browser == "chrome":
            page["title"] = title
            at |= {"url": number, "visit_time": time(seconds)}
        else:
            page["title"] = title
            at |= {"place_id": number, "visit_date": time(seconds)}
        tables[pages].append(page)
        tables[visit].append(at)
    return write_database(path, HISTORY_SCHEMAS[browser], **tables)


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


def fit(messages: Iterable[tuple[int, list[tuple[int, str, Any]]]]) -> bytes:
    """Return a FIT file of messages: a number, and (field, format of struct, value)."""
    types = {"B": 0x02, "H": 0x84, "I": 0x86, "b": 0x01, "i": 0x85}
    body = b""
    for number, fields in messages:
        body += struct.pack("<BBBHB", 0x40, 0, 0, number, len(fields))
        for field, kind, _ in fields:
            base = 0x00 if kind == "enum" else types[kind]
            body += bytes([field, 1 if kind == "enum" else struct.calcsize(kind), base])
        body += b"\0" + b"".join(
            struct.pack("<B" if kind == "enum" else f"<{kind}", value) for _, kind, value in fields
        )
    header = struct.pack("<BBHI4s", 14, 0x10, 2132, len(body), b".FIT")
    content = header + struct.pack("<H", _crc(header)) + body
    return content + struct.pack("<H", _crc(content))


def _crc(content: bytes) -> int:
    table = (0x0000, 0xCC01, 0xD801, 0x1400, 0xF001, 0x3C00, 0x2800, 0xE401,
             0xA001, 0x6C00, 0x7800, 0xB401, 0x5000, 0x9C01, 0x8801, 0x4400)  # fmt: skip
    crc = 0
    for byte in content:
        crc = ((crc >> 4) & 0x0FFF) ^ table[crc & 0xF] ^ table[byte & 0xF]
        crc = ((crc >> 4) & 0x0FFF) ^ table[crc & 0xF] ^ table[(byte >> 4) & 0xF]
    return crc
