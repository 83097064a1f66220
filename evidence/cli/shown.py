"""What reaches the terminal: text of records is data, and must not steer the terminal or deceive.

Control, bidirectional and invisible characters are shown as `\\u` escapes; the value is not changed
where it goes into a file or a pipe.
"""

import re

_ESCAPED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def plain(text: object) -> str:
    """For the terminal: line breaks and tabs stay, every other control is made visible."""
    return _ESCAPED.sub(_escape, str(text))


def line(text: object, *, most: int = 0) -> str:
    """The same on one line, cut with an ellipsis at `most` characters."""
    flat = plain(" ".join(str(text).split()))
    return f"{flat[: most - 1]}…" if most and len(flat) > most else flat


def json_text(written: str) -> str:
    """JSON with the same characters escaped inside its strings; it reads back to the same value."""
    return _ESCAPED.sub(_escape, written)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
