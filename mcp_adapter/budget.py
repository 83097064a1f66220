"""Byte budgets for both channels of a result, and how pages, items and groups are cut to fit them.

All sizes are UTF-8 bytes as serialized in the response.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import regex

from evidence import limits
from evidence.limits import MAX_BYTES_MOST, PAGE_BYTES_LEAST, WINDOW_GRAPHEME_CHARS
from mcp_adapter.arguments import Arguments, integer
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps, json_size, wire_size
from mcp_adapter.labels import clip_bytes, is_window_descriptor
from mcp_adapter.text.fitting import SOURCES_BYTES
from mcp_adapter.tool import Result

Body: TypeAlias = dict[str, Any]
Rendered = TypeVar("Rendered")


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum size of each channel of a result."""

    structured: int
    text: int

    def allows(self, result: Result) -> bool:
        """Return whether both channels of the result are within the budget."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH = Budget(limits.STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ = Budget(limits.READ_BYTES, limits.READ_BYTES)

_MIN_TEXT_BYTES = 1_600
"""Enough for a long id, a long cursor and the next step."""

MAX_BYTES = integer(
    "max_bytes",
    f"Result size, {limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST} bytes",
    minimum=limits.MAX_BYTES_LEAST,
    maximum=limits.MAX_BYTES_MOST,
)


def requested_budget(
    arguments: Arguments, *, default: Budget, ratio: Budget | None = None
) -> Budget:
    """Return the default, or `max_bytes` divided between the channels in the ratio of a budget."""
    total = arguments.get("max_bytes")
    if total is None:
        return default
    ratio = ratio or default
    text = max(total * ratio.text // (ratio.text + ratio.structured), _MIN_TEXT_BYTES)
    return Budget(structured=total - text, text=text)


def largest_that_fits(
    maximum: int, *, render: Callable[[int], Rendered], fits: Callable[[Rendered], bool]
) -> Rendered | None:
    """Return `render(n)` for the largest n from 0 to `maximum` that fits, or None.

    Searches by bisection: a smaller n must not render larger, except for the few characters that
    keep a grapheme whole.
    """
    minimum, largest = 0, None
    while minimum <= maximum:
        middle = (minimum + maximum + 1) // 2
        rendered = render(middle)
        if fits(rendered):
            minimum, largest = middle + 1, rendered
        else:
            maximum = middle - 1
    return largest


_GRAPHEME = regex.compile(r"\X")


def grapheme_boundary(text: str, position: int) -> int:
    """Return the last grapheme boundary up to `position`, or `position` if none is near."""
    if position >= len(text):
        return len(text)
    start, end = max(0, position - WINDOW_GRAPHEME_CHARS), position + WINDOW_GRAPHEME_CHARS
    ends = (grapheme.end() for grapheme in _GRAPHEME.finditer(text, start, end))
    return max((end for end in ends if end <= position), default=position)


_MIN_CUT_BYTES = 200
"""Smaller values are not cut."""
_PREVIEW_CHARS = 60
_MAX_OMITTED_NAMES = 10


def _shrink(body: Body, *, max_bytes: int) -> Body:
    """Cut the only item of a list body until the body takes at most `max_bytes`, if possible."""
    (item,) = body["data"]
    item_bytes = max_bytes - (json_size(body) - json_size(item))
    shrink = _shrink_hit if "evidence_excerpts" in item else _shrink_record
    return {**body, "data": [shrink(item, max_bytes=item_bytes)]}


def _shrink_record(record: Body, *, max_bytes: int) -> Body:
    """Replace the largest fields by descriptors, then omit the last fields."""
    fields = dict(record.get("data", {}))
    fields_bytes = max_bytes - (json_size(record) - json_size(fields))
    for name in sorted(fields, key=lambda name: json_size(fields[name]), reverse=True):
        if json_size(fields) <= fields_bytes or json_size(fields[name]) < _MIN_CUT_BYTES:
            break
        fields[name] = _window_descriptor(name, fields[name])
    remaining = dict(fields)
    while remaining and json_size(remaining) > fields_bytes:
        remaining = dict(list(remaining.items())[: len(remaining) * 3 // 4])
    omitted = [name for name in fields if name not in remaining]
    return {**record, "data": remaining, **_omitted_fields(record, omitted)}


def _omitted_fields(record: Body, names: list[str]) -> Body:
    """Return the members with which REST reports omitted fields, including those REST omitted."""
    if not names:
        return {}
    all_names = [name[:64] for name in [*record.get("omitted_fields", []), *names]]
    return {
        "omitted_fields": all_names[:_MAX_OMITTED_NAMES],
        "omitted_field_count": record.get("omitted_field_count", 0) + len(names),
    }


def _window_descriptor(name: str, value: Any) -> Body:
    """Return a descriptor of a large field in the shape of REST's window descriptor."""
    if is_window_descriptor(value):
        return {**value, "preview": str(value.get("preview", ""))[:_PREVIEW_CHARS]}
    text = value if isinstance(value, str) else dumps(value)
    return {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "preview": text[:_PREVIEW_CHARS],
        "total_chars": len(text),
        "total_bytes": len(text.encode(errors="replace")),
        "read": {"tool": "read_record_field", "field_path": name},
    }


def _shrink_hit(hit: Body, *, max_bytes: int) -> Body:
    """Keep the first excerpt only, then cut long strings."""
    excerpts = hit["evidence_excerpts"]
    cut = {**hit, "evidence_excerpts": excerpts[:1]}
    if len(excerpts) > 1:
        cut["evidence_excerpts_left_out"] = len(excerpts) - 1
    return cut if json_size(cut) <= max_bytes else {**_clip_strings(cut), "cut": True}


def _clip_strings(value: Any) -> Any:
    if isinstance(value, str):
        return clip_bytes(value, _MIN_CUT_BYTES)
    if isinstance(value, dict):
        return {name: _clip_strings(member) for name, member in value.items()}
    return [_clip_strings(member) for member in value] if isinstance(value, list) else value


def drop_groups(body: Body) -> Body:
    """Drop the last quarter of the groups of an aggregate, and count the dropped ones."""
    groups = body["groups"]
    count = len(groups) * 3 // 4
    left_out = body.get("groups_left_out", 0) + len(groups) - count
    return {**body, "groups": groups[:count], "groups_left_out": left_out}


_CUT_SHARES = (0.7, 0.5, 0.35, 0.2)
_ORIGIN_BYTES = 140
"""Maximum size of the origin mark of a page."""


def limit_params(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """Return the REST parameters that bound a page, given both channels without any item."""
    max_bytes = budget.structured - json_size(structured) - _ORIGIN_BYTES
    max_line_bytes = budget.text - wire_size(dumps(text)) - SOURCES_BYTES
    return [limit_param("max_bytes", max_bytes), limit_param("max_line_bytes", max_line_bytes)]


def limit_param(name: str, max_bytes: int) -> tuple[str, str]:
    """Return one REST size parameter, clamped to the range that REST accepts."""
    return name, str(min(max(max_bytes, PAGE_BYTES_LEAST), MAX_BYTES_MOST))


def fit_page(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """Build the result of a page, and cut its item if it has only one that exceeds the budget.

    Raises AdapterError if the page cannot be made to fit.
    """
    result = build(body)
    if budget.allows(result):
        return result
    if len(body["data"]) == 1:
        # Links repeat what the cursor says, so they can be dropped.
        all_links: tuple[Body, ...] = (body.get("links", {}), {})
        for links in all_links:
            for share in _CUT_SHARES:
                max_bytes = int(budget.structured * share)
                result = build(_shrink({**body, "links": links}, max_bytes=max_bytes))
                if budget.allows(result):
                    return result
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
