"""Fit a page into `max_bytes`: end it early, or replace large fields by window descriptors.

The limit applies to the whole response as a model sees it (`item_sizes`). A record that exceeds it alone
keeps its id and small fields; each large text becomes a window descriptor with a preview and the call
that reads it (decision 9). With `max_line_bytes`, the caller also shows each item as a line, and an
item's size includes its entry in the caller's structured result.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evidence import limits
from evidence.api.envelopes import field_window_link
from evidence.api.item_sizes import json_size, line_size, quoted_json_size, structured_entry_size
from evidence.api.query_parameters import QueryParameters
from evidence.errors import InvalidRequest
from evidence.search.analysis.graphemes import grapheme_floor

PREVIEW_CHARS = 200
SMALL_FIELD_BYTES = 320
MAX_OMITTED_NAMES = 10
CHILD_SHARE, CHILD_BYTES = 4, 1_200
"""An expanded record takes at most a quarter of the limit, or CHILD_BYTES if that is more."""
EMPTY_BYTES = 320
"""Size of an empty page or record: member names, counts and an empty meta."""
LINE_EMPTY_BYTES = 60

PARAMETERS = frozenset({"max_bytes", "max_line_bytes"})


@dataclass(frozen=True, slots=True)
class ByteLimits:
    """Size limits of a page, in bytes: the whole response, and the lines of its items."""

    total: int | None
    lines: int | None


def parse_byte_limits(query: QueryParameters) -> ByteLimits:
    """Parse `max_bytes` and `max_line_bytes`. Raises InvalidRequest outside the allowed range."""
    total, lines = (_byte_limit(query, name) for name in ("max_bytes", "max_line_bytes"))
    if lines is not None and total is None:
        raise InvalidRequest(message="max_line_bytes requires max_bytes.", param="max_line_bytes")
    return ByteLimits(total, lines)


def _byte_limit(query: QueryParameters, name: str) -> int | None:
    number = query.integer(name)
    minimum, maximum = limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST
    if number is not None and not minimum <= number <= maximum:
        raise InvalidRequest(message=f"{name} takes {minimum} to {maximum}.", param=name)
    return number


@dataclass(frozen=True, slots=True)
class EnvelopeSize:
    """Size of a page without its items, in bytes: its body, its part of the lines, and its cursor."""

    body: int
    lines: int
    cursor: int


def envelope_size(query: QueryParameters, *, cursor: int, meta: object = None) -> EnvelopeSize:
    """Return the envelope size for a page's `meta` and the length of its longest cursor."""
    metadata = [meta or {}, [asdict(warning) for warning in query.warnings]]
    body = EMPTY_BYTES + 2 * json_size(query.path) + json_size(metadata)
    return EnvelopeSize(body, LINE_EMPTY_BYTES + quoted_json_size(metadata), cursor)


class _RemainingBytes:
    """Counts down the limits while items are added."""

    def __init__(self, byte_limits: ByteLimits, envelope: EnvelopeSize, *, cursor: int) -> None:
        self._has_lines = byte_limits.lines is not None
        self._body = (byte_limits.total or 0) - envelope.body - 2 * cursor
        self._line = (byte_limits.lines or 0) - envelope.lines - cursor

    def add(self, row: dict[str, Any]) -> bool:
        """Add the item if it fits, and return whether it does."""
        cost, line = json_size(row) + 1, 0
        if self._has_lines:
            cost += structured_entry_size(row)
            line = line_size(row)
        if cost > self._body or line > max(self._line, 0):
            return False
        self._body -= cost
        self._line -= line
        return True

    def available_for(self, row: dict[str, Any]) -> int:
        """Return the bytes that a first item may take."""
        return self._body - (structured_entry_size(row) if self._has_lines else 0) - 1


def fit_page(
    rows: Sequence[dict[str, Any]],
    byte_limits: ByteLimits,
    envelope: EnvelopeSize,
    *,
    more: bool,
    shrink: Callable[[dict[str, Any], int], dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Return the first rows that fit, or the first row alone, shrunk until it fits.

    `more` means that further rows follow, so that the page has a cursor in any case.
    """
    if byte_limits.total is None or not rows:
        return list(rows)
    if not more and all(map(_RemainingBytes(byte_limits, envelope, cursor=0).add, rows)):
        return list(rows)
    remaining = _RemainingBytes(byte_limits, envelope, cursor=envelope.cursor)
    fitting = list(itertools.takewhile(remaining.add, rows))
    return fitting or [(shrink or shrink_record)(rows[0], remaining.available_for(rows[0]))]


def drop_excerpts(hit: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Remove excerpts from the end until the hit fits or none is left."""
    while json_size(hit) > max_bytes and hit["evidence_excerpts"]:
        hit = {**hit, "evidence_excerpts": hit["evidence_excerpts"][:-1]}
    return hit


def fit_record(row: dict[str, Any], byte_limits: ByteLimits) -> dict[str, Any]:
    """Shrink a single record to the limit, then extend the previews, shortest text first."""
    if byte_limits.total is None:
        return row
    max_bytes = byte_limits.total - EMPTY_BYTES
    if json_size(row) <= max_bytes:
        return row
    small = shrink_record(row, max_bytes)
    spare = max_bytes - json_size(small)
    texts = [name for name, value in row["data"].items() if isinstance(value, str)]
    shrunk = [name for name in texts if isinstance(small["data"].get(name), dict)]
    for name in sorted(shrunk, key=lambda name: len(row["data"][name])):
        text = row["data"][name]
        longer = small["data"][name] | {"preview": _prefix(text, spare)}
        if len(longer["preview"]) > PREVIEW_CHARS:
            spare -= json_size(longer) - json_size(small["data"][name])
            small["data"][name] = longer
    return small


def _prefix(text: str, max_bytes: int) -> str:
    """Return the longest prefix of the text that takes at most `max_bytes`."""
    low, high = 0, min(len(text), max(max_bytes, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if json_size(text[:middle]) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return text[: grapheme_floor(text, low)]


def shrink_record(row: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Shrink a record: expanded lists to one record each, then fields, then the lists entirely."""
    if "expanded" in row:
        related = {name: _shrink_related(body, max_bytes) for name, body in row["expanded"].items()}
        row = _truncate_lists({**row, "expanded": related}, max_bytes, min_records=1)
    row = _without_large_fields(row, max_bytes)
    return _truncate_lists(row, max_bytes, min_records=0) if "expanded" in row else row


def _shrink_related(body: Any, max_bytes: int) -> Any:
    """Shrink each related record to a quarter of the limit, or CHILD_BYTES."""
    if body is None:
        return None
    if "data" in body and body["object"] == "list":
        return {**body, "data": [_shrink_related(record, max_bytes) for record in body["data"]]}
    return _without_large_fields(body, max(max_bytes // CHILD_SHARE, CHILD_BYTES))


def _truncate_lists(row: dict[str, Any], max_bytes: int, *, min_records: int) -> dict[str, Any]:
    """Remove records from the end of the expanded lists, the largest list first."""
    lists = {
        name: {**found, "data": list(found["data"])}
        for name, found in row["expanded"].items()
        if found is not None and found["object"] == "list"
    }
    row = {**row, "expanded": row["expanded"] | lists}
    over = json_size(row) - max_bytes
    while over > 0 and any(len(found["data"]) > min_records for found in lists.values()):
        longest = max(lists.values(), key=lambda found: len(found["data"]))
        over -= json_size(longest["data"].pop()) + 1
        longest["has_more"] = True
    return row


def _without_large_fields(row: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Replace the largest fields by window descriptors until the record fits."""
    data = dict(row["data"])
    over = json_size(row) - max_bytes
    for name in sorted(data, key=lambda field: json_size(data[field]), reverse=True):
        if over <= 0:
            break
        before = json_size(data[name])
        if before <= SMALL_FIELD_BYTES:
            break
        data[name] = _descriptor(row, name, data[name], before)
        over -= before - json_size(data[name])
    if over <= 0:
        return {**row, "data": data}
    return {**row, **_omit_last_fields(data, over)}


def _descriptor(row: dict[str, Any], name: str, value: object, total: int) -> dict[str, Any]:
    body = field_window_link(row["stream"], row["id"], name, row["connection_id"])
    descriptor: dict[str, Any] = {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "total_bytes": total,
        "read": {key: body[key] for key in body if key != "object"},
    }
    if isinstance(value, str):
        descriptor["total_chars"] = len(value)
        descriptor["preview"] = value[: grapheme_floor(value, min(PREVIEW_CHARS, len(value)))]
    return descriptor


def _omit_last_fields(data: dict[str, Any], over: int) -> dict[str, Any]:
    """Omit the last of very many small fields, and list the first omitted names."""
    remaining = dict(data)
    omitted: list[str] = []
    for name in reversed(list(data)):
        if over <= 0:
            break
        over -= json_size(remaining.pop(name)) + len(name) + 4
        omitted.append(name)
    named = omitted[::-1][:MAX_OMITTED_NAMES]
    return {"data": remaining, "omitted_fields": named, "omitted_field_count": len(omitted)}
