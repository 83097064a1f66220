"""Show the fields of a record as lines that record text cannot forge."""

import re
from collections.abc import Mapping
from typing import Any

from evidence.json_text import dumps

# Everything that str.splitlines() or a terminal takes for the end of a line.
_LINE_BREAK = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\u2028\u2029]")


def record_lines(data: Mapping[str, Any], money: Mapping[str, str]) -> str:
    """Return one line `field: value` for each field, with declared money as a decimal after it.

    A text with a line break is quoted as JSON, so a line always begins with a field's name.
    """
    return "\n".join(
        f"{_text(name)}: {_text(value)}" + (f" ({money[name]})" if name in money else "")
        for name, value in data.items()
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return dumps(value)
    if not _LINE_BREAK.search(value):
        return value
    return _LINE_BREAK.sub(lambda match: f"\\u{ord(match.group()):04x}", dumps(value))
