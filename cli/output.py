"""Where a command writes: results to standard output, everything else to standard error."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cli.errors import Failure
from cli.references import shown

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


@dataclass(frozen=True, slots=True)
class Output:
    """For people, or as JSON for programs."""

    as_json: bool

    def body(self, body: Any, people: Iterable[str]) -> None:
        """The answer: as it came for programs, as `people` words it otherwise."""
        if self.as_json:
            write(json_text(json.dumps(body, ensure_ascii=False, indent=2)))
        else:
            for each in people:
                write(plain(each))

    def note(self, text: str) -> None:
        """A word to whoever watches; programs are left in peace."""
        if not self.as_json:
            tell(text)

    def failure(self, failure: Failure) -> None:
        """Why the command ended, on standard error in either form."""
        if self.as_json:
            tell(json_text(json.dumps(failure.body, ensure_ascii=False)))
            return
        tell(f"pdpp: {plain(failure.message)} ({plain(failure.code)})")
        if failure.param is not None:
            tell(f"  concerns: {plain(failure.param)}")
        for connection in failure.detail.get("available_connections") or ():
            tell(f"  {_candidate(connection)}")
        if failure.next_step is not None:
            tell(f"  next: {plain(failure.next_step)}")
        if request_id := failure.detail.get("request_id"):
            tell(f"  request: {plain(request_id)}")


def write(text: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """One line beside the result."""
    sys.stderr.write(f"{text}\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 60) -> list[str]:
    """Columns that line up; a cell is cut at `most` characters, the last column never."""
    cells = [list(heads)] + [
        [line(cell, most=most if n < len(row) - 1 else 0) for n, cell in enumerate(row)]
        for row in rows
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _candidate(connection: Any) -> str:
    if not isinstance(connection, dict):
        return plain(connection)
    label = connection.get("display_name") or connection.get("connector_key") or ""
    return f"--connection {plain(connection.get('connection_id'))}  {line(label)}".rstrip()


def paging(body: dict[str, Any]) -> Iterator[str]:
    """Lines about the page as a whole; the cursor stands alone so that it can be copied."""
    meta = body.get("meta") or {}
    shown = len(body.get("data") or ())
    yield f"{shown} shown{_of(meta)}{'; there are more' if body.get('has_more') else ''}"
    for name in ("hint", "note"):
        if meta.get(name):
            yield line(meta[name])
    for warning in meta.get("warnings") or ():
        yield f"warning: {line(warning.get('message') or warning.get('code'))}"
    if body.get("next_cursor"):
        yield f"--cursor {line(body['next_cursor'])}"
    if body.get("next_changes_since"):
        yield f"--since {line(body['next_changes_since'])}"


def _of(meta: dict[str, Any]) -> str:
    count = meta.get("count")
    if isinstance(count, dict):
        count = count.get("value")
    if not isinstance(count, int):
        return ""
    least = meta.get("count_accuracy") == "lower_bound"
    return f" of {'at least ' if least else ''}{count}"


def name_of(record: dict[str, Any]) -> str:
    """What `pdpp fetch` takes."""
    return shown(record.get("connection_id"), str(record.get("stream")), str(record.get("id")))


def record_lines(record: dict[str, Any], *, most: int = 0) -> Iterator[str]:
    """The name and each field; texts are whole, or cut at `most` characters and on one line."""
    yield f"{line(name_of(record))}{_source(record)}"
    if record.get("deleted"):
        yield f"  deleted {line(record.get('deleted_at') or '')}".rstrip()
    for field, value in (record.get("data") or {}).items():
        yield f"  {line(field)}: {_value(value, most)}"


def _source(record: dict[str, Any]) -> str:
    label = record.get("display_name") or record.get("connector_key")
    return f"  ({line(label)})" if label else ""


def _value(value: object, most: int) -> str:
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return f"{line(value.get('preview') or '')}… ({value.get('total_chars')} characters)"
    text = value if isinstance(value, str) else json_text(json.dumps(value, ensure_ascii=False))
    return line(text, most=most) if most else plain(text).replace("\n", "\n    ")
