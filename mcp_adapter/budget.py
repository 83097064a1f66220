"""How much of a result each channel may take, in UTF-8 bytes as serialized."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import regex

from evidence import limits
from evidence.limits import MAX_BYTES_MOST, PAGE_BYTES_LEAST, WINDOW_GRAPHEME_CHARS
from mcp_adapter import arguments
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps, size, wire_size
from mcp_adapter.labels import clipped
from mcp_adapter.text.fitting import SOURCES_BYTES
from mcp_adapter.tool import Result


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the two channels of one result may take."""

    structured: int
    text: int

    def holds(self, result: Result) -> bool:
        """Whether the result fits, each channel for itself."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH = Budget(limits.STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ = Budget(limits.READ_BYTES, limits.READ_BYTES)

_LEAST_TEXT = 1_600
"""A long id, a long cursor and the words that say what to do with them."""

MAX_BYTES = arguments.whole(
    "max_bytes",
    f"Result size, {limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST} bytes",
    least=limits.MAX_BYTES_LEAST,
    most=limits.MAX_BYTES_MOST,
)


def chosen(given: arguments.Given, *, default: Budget, wide: Budget | None = None) -> Budget:
    """The default, or `max_bytes` of both channels together, shared out as in `wide`."""
    total = given.get("max_bytes")
    if total is None:
        return default
    shape = wide or default
    text = max(total * shape.text // (shape.text + shape.structured), _LEAST_TEXT)
    return Budget(structured=total - text, text=text)


Drawn = TypeVar("Drawn")
_CLUSTERS = regex.compile(r"\X")


def longest(
    most: int, *, draw: Callable[[int], Drawn], fits: Callable[[Drawn], bool]
) -> Drawn | None:
    """What `draw` makes of the largest number up to `most` with which it fits, or None. Less is
    never larger, but for the few characters that keep a grapheme whole."""
    least, found = 0, None
    while least <= most:
        middle = (least + most + 1) // 2
        drawn = draw(middle)
        if fits(drawn):
            least, found = middle + 1, drawn
        else:
            most = middle - 1
    return found


def whole(text: str, at: int) -> int:
    """The last place up to `at` where no grapheme is cut, if there is one near."""
    if at >= len(text):
        return len(text)
    begin = max(0, at - WINDOW_GRAPHEME_CHARS)
    ends = (
        cluster.end() for cluster in _CLUSTERS.finditer(text, begin, at + WINDOW_GRAPHEME_CHARS)
    )
    return max((end for end in ends if end <= at), default=at)


_WORTH_CUTTING = 200
_PREVIEW_CHARS = 60
_NAMES_SHOWN = 10


def shrunk(body: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The list body, its one item cut until the whole takes at most `most` bytes, if it can."""
    (item,) = body["data"]
    room = most - (size(body) - size(item))
    cut = _hit(item, most=room) if "evidence_excerpts" in item else _record(item, most=room)
    return {**body, "data": [cut]}


def _record(item: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The record, its largest fields described first and then its last ones left out."""
    fields = dict(item.get("data", {}))
    room = most - (size(item) - size(fields))
    for name in sorted(fields, key=lambda name: size(fields[name]), reverse=True):
        if size(fields) <= room or size(fields[name]) < _WORTH_CUTTING:
            break
        fields[name] = descriptor(name, fields[name])
    kept = dict(fields)
    while kept and size(kept) > room:
        kept = dict(list(kept.items())[: len(kept) * 3 // 4])
    return {**item, "data": kept, **_omitted(item, [name for name in fields if name not in kept])}


def _omitted(item: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What the record lacks, as REST words it, added to what it lacked already."""
    if not names:
        return {}
    named = [name[:64] for name in [*item.get("omitted_fields", []), *names]]
    return {
        "omitted_fields": named[:_NAMES_SHOWN],
        "omitted_field_count": item.get("omitted_field_count", 0) + len(names),
    }


def descriptor(name: str, value: Any) -> dict[str, Any]:
    """Stands for a field that is too large, as REST's own window descriptor does."""
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return {**value, "preview": str(value.get("preview", ""))[:_PREVIEW_CHARS]}
    whole = value if isinstance(value, str) else dumps(value)
    return {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "preview": whole[:_PREVIEW_CHARS],
        "total_chars": len(whole),
        "total_bytes": len(whole.encode(errors="replace")),
        "read": {"tool": "read_record_field", "field_path": name},
    }


def _hit(item: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The hit with its first excerpt alone, and then with its long strings cut."""
    excerpts = item["evidence_excerpts"]
    cut = {**item, "evidence_excerpts": excerpts[:1]}
    if len(excerpts) > 1:
        cut["evidence_excerpts_left_out"] = len(excerpts) - 1
    return cut if size(cut) <= most else {**_clipped(cut), "cut": True}


def _clipped(value: Any) -> Any:
    """The value with its long strings cut, as its `cut` mark says."""
    if isinstance(value, str):
        while size(value) > _WORTH_CUTTING:
            value = clipped(value, len(value) * 3 // 4)
        return value
    if isinstance(value, dict):
        return {name: _clipped(inner) for name, inner in value.items()}
    return [_clipped(inner) for inner in value] if isinstance(value, list) else value


def shrunk_groups(body: dict[str, Any]) -> dict[str, Any]:
    """An aggregate with a quarter of its groups fewer, the missing ones counted."""
    groups = body["groups"]
    kept = len(groups) * 3 // 4
    left_out = body.get("groups_left_out", 0) + len(groups) - kept
    return {**body, "groups": groups[:kept], "groups_left_out": left_out}


Body: TypeAlias = dict[str, Any]

_SHARES = (0.7, 0.5, 0.35, 0.2)
_ORIGIN_BYTES = 140
"""The marks of origin of a page, at most."""


def bounds(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """What to forward, given both channels as they are without any item."""
    most = budget.structured - size(structured) - _ORIGIN_BYTES
    lines = budget.text - wire_size(dumps(text)) - SOURCES_BYTES
    return [bound("max_bytes", most), bound("max_line_bytes", lines)]


def bound(name: str, most: int) -> tuple[str, str]:
    """The parameter, within the range that REST takes."""
    return name, str(min(max(most, PAGE_BYTES_LEAST), MAX_BYTES_MOST))


def shown(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """The page in both channels. Only one item that is too large alone is cut here, by name."""
    result = build(body)
    if budget.holds(result):
        return result
    if len(body["data"]) == 1:
        # What the links say the cursor says too.
        kept: Body = body.get("links", {})
        for links in (kept, {}):
            for share in _SHARES:
                cut = shrunk({**body, "links": links}, most=int(budget.structured * share))
                result = build(cut)
                if budget.holds(result):
                    return result
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
