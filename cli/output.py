"""Print results and messages, and escape control characters for terminals."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.errors import CliError
from evidence.record_ids import RecordRef, format_id

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def escape_controls(text: object) -> str:
    """Escape control and invisible characters as in JSON, except line breaks and tabs.

    Escaped JSON remains valid and parses to the same value.
    """
    return _INVISIBLE.sub(_escape, str(text))


def one_line(text: object, *, max_chars: int = 0) -> str:
    """Return escaped text on one line, cut with an ellipsis at `max_chars`. 0 means no limit."""
    flat = escape_controls(" ".join(str(text).split()))
    return f"{flat[: max_chars - 1]}…" if max_chars and len(flat) > max_chars else flat


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


@dataclass(frozen=True, slots=True)
class Output:
    """Print results and errors as text, or as JSON for programs."""

    as_json: bool

    def result(self, body: Any, lines: Iterable[str]) -> None:
        """Print the body as JSON, or `lines` for people."""
        if self.as_json:
            print_result(escape_controls(json.dumps(body, ensure_ascii=False, indent=2)))
        else:
            for line in lines:
                print_result(escape_controls(line))

    def note(self, text: str) -> None:
        """Print a message for people. Prints nothing in JSON mode."""
        if not self.as_json:
            print_message(text)

    def error(self, error: CliError) -> None:
        """Print an error to standard error."""
        if self.as_json:
            print_message(escape_controls(json.dumps(error.body, ensure_ascii=False)))
            return
        print_message(f"pdpp: {escape_controls(error.message)} ({escape_controls(error.code)})")
        if error.param is not None:
            print_message(f"  parameter: {escape_controls(error.param)}")
        for connection in error.detail.get("available_connections") or ():
            print_message(f"  {_connection_option(connection)}")
        if error.next_step is not None:
            print_message(f"  next: {escape_controls(error.next_step)}")
        if request_id := error.detail.get("request_id"):
            print_message(f"  request: {escape_controls(request_id)}")


def print_result(text: str) -> None:
    """Print one line to standard output."""
    sys.stdout.write(f"{text}\n")


def print_message(text: str) -> None:
    """Print one line to standard error."""
    sys.stderr.write(f"{text}\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table. Cells are cut at 60 characters, except in the last column."""
    cells = [list(headings)] + [
        [one_line(cell, max_chars=60 if n < len(row) - 1 else 0) for n, cell in enumerate(row)]
        for row in rows
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _connection_option(connection: Any) -> str:
    if not isinstance(connection, dict):
        return escape_controls(connection)
    return f"--connection {connection_label(connection)}"


def connection_label(connection: Mapping[str, Any]) -> str:
    """Return the id, the name and the source of a connection."""
    name, source = connection.get("display_name"), connection.get("connector_key")
    label = f"{name} ({source})" if name and source else name or source or ""
    return f"{escape_controls(connection.get('connection_id'))}  {one_line(label)}".rstrip()


def page_lines(body: dict[str, Any]) -> Iterator[str]:
    """Yield lines about a page: its size, hints, warnings, and the options for the next page."""
    meta = body.get("meta") or {}
    size = len(body.get("data") or ())
    yield f"{size} shown{_total(meta)}{'; there are more' if body.get('has_more') else ''}"
    for name in ("hint", "note"):
        if meta.get(name):
            yield one_line(meta[name])
    for warning in meta.get("warnings") or ():
        yield f"warning: {one_line(warning.get('message') or warning.get('code'))}"
    if body.get("next_cursor"):
        yield f"--cursor {one_line(body['next_cursor'])}"
    if body.get("next_changes_since"):
        yield f"--since {one_line(body['next_changes_since'])}"


def _total(meta: dict[str, Any]) -> str:
    count = meta.get("count")
    if isinstance(count, dict):
        count = count.get("value")
    if not isinstance(count, int):
        return ""
    is_lower_bound = meta.get("count_accuracy") == "lower_bound"
    return f" of {'at least ' if is_lower_bound else ''}{count}"


def record_lines(record: dict[str, Any], *, max_chars: int = 0) -> Iterator[str]:
    """Yield the id and each field of a record. Values are cut at `max_chars`; 0 means no limit."""
    ref = RecordRef(record.get("connection_id"), str(record.get("stream")), str(record.get("id")))
    label = record.get("display_name") or record.get("connector_key")
    yield one_line(format_id(ref)) + (f"  ({one_line(label)})" if label else "")
    if record.get("deleted"):
        yield f"  deleted {one_line(record.get('deleted_at') or '')}".rstrip()
    for field, value in (record.get("data") or {}).items():
        yield f"  {one_line(field)}: {_value(value, max_chars)}"


def _value(value: object, max_chars: int) -> str:
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return f"{one_line(value.get('preview') or '')}… ({value.get('total_chars')} characters)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if max_chars:
        return one_line(text, max_chars=max_chars)
    return escape_controls(text).replace("\n", "\n    ")
