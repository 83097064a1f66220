"""Values as the text that COPY reads, built once where the value is known.

Rows are joined by hand because a batch spends most of its time here; ``copy_rows`` sends them as
they are.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from django.db import connection

NULL = b"\\N"
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
    return text("{%s}" % ",".join(parts))


def copy_rows(into: str, rows: Iterable[bytes]) -> None:
    """Sends rows to ``into``, a constant ``table (columns)``."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
        for row in rows:
            copy.write(row)
