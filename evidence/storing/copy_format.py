"""Values as COPY reads them, built once where the value is known.

Rows are joined by hand because a batch spends most of its time here. They are text but for search
text, whose binary form spares the server most of the parsing.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import orjson
from django.db import connection

from evidence.search.analysis.pg_text_search import Joined

NULL = b"\\N"
BINARY_NULL = struct.pack(">i", -1)
_BINARY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END = struct.pack(">h", -1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPES = str.maketrans(_ESCAPED)
_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"'})


def text(value: str | None) -> bytes:
    if value is None:
        return NULL
    if _SPECIAL.search(value):
        value = value.translate(_ESCAPES)
    return value.encode()


def json(value: object) -> bytes:
    """A JSON value; its only characters that COPY would take for its own are backslashes."""
    return orjson.dumps(value).replace(b"\\", b"\\\\")


def moment(value: datetime | None) -> bytes:
    return NULL if value is None else value.isoformat().encode()


def plain_array(values: Sequence[object]) -> bytes:
    """An array of numbers; null where there are no positions at all."""
    if not values:
        return NULL
    return b"{%s}" % ",".join("NULL" if v is None else str(v) for v in values).encode()


def moment_array(values: Sequence[datetime | None]) -> bytes:
    if not values:
        return NULL
    return b"{%s}" % ",".join("NULL" if v is None else v.isoformat() for v in values).encode()


def text_array(values: Sequence[str | None]) -> bytes:
    if not values:
        return NULL
    parts = ("NULL" if value is None else f'"{value.translate(_QUOTED)}"' for value in values)
    return text(f"{{{','.join(parts)}}}")


def binary_row(*columns: bytes) -> bytes:
    return struct.pack(">h", len(columns)) + b"".join(columns)


def binary_text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">i", len(encoded)) + encoded


def binary_moment(value: datetime | None) -> bytes:
    if value is None:
        return BINARY_NULL
    return struct.pack(">iq", 8, (value - _EPOCH) // _MICROSECOND)


def binary_small(value: int) -> bytes:
    return struct.pack(">ih", 2, value)


def binary_integer(value: int) -> bytes:
    return struct.pack(">ii", 4, value)


def binary_halves(value: Sequence[float] | None) -> bytes:
    """A halfvec: how many numbers it has, nothing, and each in half precision."""
    if value is None:
        return BINARY_NULL
    count = len(value)
    return struct.pack(f">ihh{count}e", 4 + 2 * count, count, 0, *value)


def binary_terms(lexemes: Joined) -> bytes:
    """A tsvector of distinct lexemes in any order, none of them with a position."""
    encoded = lexemes.text.encode()
    return struct.pack(">ii", len(encoded) + 4, lexemes.total) + encoded


def copy_rows(into: str, rows: Iterable[bytes]) -> None:
    """Sends rows to ``into``, a constant ``table (columns)``.

    All in one piece: each piece gives way to the thread that prepares the next batch.
    """
    content = b"".join(rows)
    if content:
        _send(f"COPY {into} FROM STDIN", content)


def copy_binary_rows(into: str, rows: Iterable[bytes]) -> None:
    """The same for rows that ``binary_row`` made."""
    content = b"".join(rows)
    if content:
        _send(f"COPY {into} FROM STDIN (FORMAT BINARY)", _BINARY_START + content + _BINARY_END)


def _send(statement: str, content: bytes) -> None:
    # Django passes `copy` through as it is, errors included.
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        copy.write(content)
