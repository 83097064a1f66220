"""From a piece of evidence to the command that reads the field around it."""

import re
from typing import Any

from evidence.cli.references import shown
from evidence.cli.session import Session

_MARKED = re.compile(r"<mark>(.+?)</mark>", re.DOTALL)


def read_on(session: Session, hit: dict[str, Any], excerpt: dict[str, Any]) -> str:
    """The `pdpp field …` line for one excerpt of a hit.

    A server that says where the excerpt stands gets an offset; any other is asked to find the
    marked words again.
    """
    read = excerpt.get("read") or {}
    name = shown(
        read.get("connection_id") or hit.get("connection_id"),
        str(read.get("stream") or hit.get("stream")),
        str(read.get("record_id") or hit.get("record_key")),
    )
    field = str(read.get("field") or excerpt.get("field_path"))
    return session.line("field", name, field, *_place(excerpt))


def _place(excerpt: dict[str, Any]) -> list[str]:
    start = excerpt.get("start_chars")
    if isinstance(start, int):
        return ["--offset", str(start)] if start else []
    found = _MARKED.search(str(excerpt.get("preview_text") or ""))
    return ["--find", found[1]] if found else []
