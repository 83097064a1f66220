"""Encode values in PostgreSQL's COPY text and binary formats.

Encoding dominates the time of a batch, so rows are joined by hand. Search text and vectors use the
binary format, which the server parses much faster.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import orjson
from django.db import connection

from evidence.search.analysis.tsquery import EncodedLexemes

NULL = b"\\N"
BINARY_NULL = struct.pack(">i", -1)
_BINARY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BYTEA = 17
_BINARY_END = struct.pack(">h", -1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SPECIAL_CHARACTER = re.compile(r"[\\\t\n\r]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ARRAY_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def text(value: str | None) -> bytes:
    if value is None:
        return NULL
    if _SPECIAL_CHARACTER.search(value):
        value = value.translate(_ESCAPES)
    return value.encode()


def json(value: object) -> bytes:
    """Encode a JSON value; backslashes are its only characters that COPY interprets."""
    return orjson.dumps(value).replace(b"\\", b"\\\\")


def timestamp(value: datetime | None) -> bytes:
    return NULL if value is None else value.isoformat().encode()


def number_array(values: Sequence[object]) -> bytes:
    """Encode an array of numbers; an empty one is null."""
    if not values:
        return NULL
    return b"{%s}" % ",".join("NULL" if v is None else str(v) for v in values).encode()


def timestamp_array(values: Sequence[datetime | None]) -> bytes:
    if not values:
        return NULL
    return b"{%s}" % ",".join("NULL" if v is None else v.isoformat() for v in values).encode()


def text_array(values: Sequence[str | None]) -> bytes:
    if not values:
        return NULL
    parts = (
        "NULL" if value is None else f'"{value.translate(_ARRAY_ESCAPES)}"' for value in values
    )
    return text(f"{{{','.join(parts)}}}")


def binary_row(*columns: bytes) -> bytes:
    return struct.pack(">h", len(columns)) + b"".join(columns)


def binary_text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">i", len(encoded)) + encoded


def binary_timestamp(value: datetime | None) -> bytes:
    if value is None:
        return BINARY_NULL
    return struct.pack(">iq", 8, (value - _EPOCH) // _MICROSECOND)


def binary_smallint(value: int) -> bytes:
    return struct.pack(">ih", 2, value)


def binary_integer(value: int) -> bytes:
    return struct.pack(">ii", 4, value)


def binary_halfvec(value: Sequence[float] | None) -> bytes:
    """Encode a pgvector halfvec: its dimension, an unused field, then half-precision numbers."""
    if value is None:
        return BINARY_NULL
    count = len(value)
    return struct.pack(f">ihh{count}e", 4 + 2 * count, count, 0, *value)


def binary_tsvector(lexemes: EncodedLexemes) -> bytes:
    """Encode a tsvector of distinct lexemes in any order, without positions."""
    encoded = lexemes.text.encode()
    return struct.pack(">ii", len(encoded) + 4, lexemes.total) + encoded


def binary_bytes_array(values: Sequence[bytes | None]) -> bytes:
    """Encode a bytea[]; an empty one is null."""
    if not values:
        return BINARY_NULL
    parts = [
        BINARY_NULL if each is None else struct.pack(">i", len(each)) + each for each in values
    ]
    content = struct.pack(">5i", 1, None in values, _BYTEA, len(values), 1) + b"".join(parts)
    return struct.pack(">i", len(content)) + content


def copy_rows(columns: str, rows: Iterable[bytes]) -> None:
    """Copy text rows into ``columns``, a constant ``table (columns)``.

    Sends one piece: after each piece the thread that prepares the next batch would take over.
    """
    content = b"".join(rows)
    if content:
        _send(f"COPY {columns} FROM STDIN", content)


def copy_binary_rows(columns: str, rows: Iterable[bytes]) -> None:
    """Copy rows encoded by ``binary_row``; see ``copy_rows``."""
    content = b"".join(rows)
    if content:
        _send(f"COPY {columns} FROM STDIN (FORMAT BINARY)", _BINARY_START + content + _BINARY_END)


def _send(statement: str, content: bytes) -> None:
    # Django does not wrap the database errors of `copy`.
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        copy.write(content)
