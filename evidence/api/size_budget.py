"""``max_bytes``: a page that ends early rather than grow, and fields that become windows.

The bound is on the whole answer as a model is shown it (``sizes``). A record that is too large on its
own keeps its identity and its small fields; each large text becomes an explicit window descriptor
with a preview and the call that reads it (decision 9). A caller that also shows each item as a line
bounds those as well (``lines``), and then an item counts with what such a caller keeps beside it.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evidence import limits
from evidence.api.envelopes import window_read
from evidence.api.item_sizes import beside_bytes, line_bytes, quoted_size, size
from evidence.api.query_parameters import Parameters
from evidence.errors import InvalidRequest
from evidence.search.analysis.graphemes import grapheme_floor

PREVIEW_CHARS = 200
SMALL_FIELD_BYTES = 320
NAMED_OMISSIONS = 10
CHILD_SHARE, CHILD_BYTES = 4, 1_200
"""Where room is short no expanded record takes more than one part in four, or these bytes."""
EMPTY_BYTES = 320
"""A page or record without what varies: names of members, counts, an empty meta."""
LINE_EMPTY_BYTES = 60


PARAMETERS = frozenset({"max_bytes", "max_line_bytes"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a page may take: ``most`` bytes in all, ``lines`` for its items named one a line."""

    most: int | None
    lines: int | None


def asked(query: Parameters) -> Bounds:
    """``max_bytes`` and ``max_line_bytes``. Raises ``InvalidRequest`` outside the allowed range."""
    most, lines = (_bound(query, name) for name in ("max_bytes", "max_line_bytes"))
    if lines is not None and most is None:
        raise InvalidRequest(message="max_line_bytes needs max_bytes.", param="max_line_bytes")
    return Bounds(most, lines)


def _bound(query: Parameters, name: str) -> int | None:
    number = query.integer(name)
    least, most = limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST
    if number is not None and not least <= number <= most:
        raise InvalidRequest(message=f"{name} takes {least} to {most}.", param=name)
    return number


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes of a page without its items: all of it, what is said of it beside the lines, and the
    cursor, where it has one."""

    body: int
    lines: int
    cursor: int


def frame(query: Parameters, *, cursor: int, meta: object = None) -> Frame:
    """``meta`` is what the page says of itself, ``cursor`` the length of its longest cursor."""
    said = [meta or {}, [asdict(warning) for warning in query.warnings]]
    body = EMPTY_BYTES + 2 * size(query.path) + size(said)
    return Frame(body, LINE_EMPTY_BYTES + quoted_size(said), cursor)


class _Room:
    """What is left of the bounds while items are taken."""

    def __init__(self, bounds: Bounds, frame: Frame, *, cursor: int) -> None:
        self._lines = bounds.lines
        self._body = (bounds.most or 0) - frame.body - 2 * cursor
        self._line = (bounds.lines or 0) - frame.lines - cursor

    def takes(self, row: dict[str, Any]) -> bool:
        """Whether the item still fits; if so its room is taken."""
        cost, line = size(row) + 1, 0
        if self._lines is not None:
            cost += beside_bytes(row)
            line = line_bytes(row)
        if cost > self._body or line > max(self._line, 0):
            return False
        self._body -= cost
        self._line -= line
        return True

    def for_one(self, row: dict[str, Any]) -> int:
        """Bytes for the item alone, where it is the first."""
        return self._body - (beside_bytes(row) if self._lines is not None else 0) - 1


def fitted(
    rows: Sequence[dict[str, Any]],
    bounds: Bounds,
    frame: Frame,
    *,
    more: bool,
    cut: Callable[[dict[str, Any], int], dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """As many of ``rows``, in order, as fit; at least the first, ``cut`` down to its room. ``more``
    says that others follow, so that there is a cursor in any case."""
    if bounds.most is None or not rows:
        return list(rows)
    if not more and all(map(_Room(bounds, frame, cursor=0).takes, rows)):
        return list(rows)
    room = _Room(bounds, frame, cursor=frame.cursor)
    shown = list(itertools.takewhile(room.takes, rows))
    return shown or [(cut or windowed)(rows[0], room.for_one(rows[0]))]


def fewer_excerpts(hit: dict[str, Any], room: int) -> dict[str, Any]:
    """The hit, which gives up excerpts before it gives up itself."""
    while size(hit) > room and hit["evidence_excerpts"]:
        hit = {**hit, "evidence_excerpts": hit["evidence_excerpts"][:-1]}
    return hit


def fitted_alone(row: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    """One record that fits. What its windowed fields leave goes to their previews, the shortest
    text first, so that one answer shows as much of the record as it may."""
    if bounds.most is None:
        return row
    room = bounds.most - EMPTY_BYTES
    if size(row) <= room:
        return row
    cut = windowed(row, room)
    spare = room - size(cut)
    texts = [name for name, value in row["data"].items() if isinstance(value, str)]
    described = [name for name in texts if isinstance(cut["data"].get(name), dict)]
    for name in sorted(described, key=lambda each: len(row["data"][each])):
        text = row["data"][name]
        longer = cut["data"][name] | {"preview": _beginning(text, spare)}
        if len(longer["preview"]) > PREVIEW_CHARS:
            spare -= size(longer) - size(cut["data"][name])
            cut["data"][name] = longer
    return cut


def _beginning(text: str, room: int) -> str:
    """As much of the text as takes ``room`` bytes."""
    least, most = 0, min(len(text), max(room, 0))
    while least < most:
        middle = (least + most + 1) // 2
        if size(text[:middle]) <= room:
            least = middle
        else:
            most = middle - 1
    return text[: grapheme_floor(text, least)]


def windowed(row: dict[str, Any], room: int) -> dict[str, Any]:
    """The row, cut until it fits: of relations to many all but the newest, then its own fields."""
    if "expanded" in row:
        small = {name: _smaller(found, room) for name, found in row["expanded"].items()}
        row = _fewer({**row, "expanded": small}, room, least=1)
    row = _without_large_fields(row, room)
    return _fewer(row, room, least=0) if "expanded" in row else row


def _smaller(found: Any, room: int) -> Any:
    """What a relation leads to, no record of it larger than a quarter of the room."""
    if found is None:
        return None
    if "data" in found and found["object"] == "list":
        return {**found, "data": [_smaller(each, room) for each in found["data"]]}
    return _without_large_fields(found, max(room // CHILD_SHARE, CHILD_BYTES))


def _fewer(row: dict[str, Any], room: int, *, least: int) -> dict[str, Any]:
    """The row with its lists cut from the end, the largest first, down to ``least`` records."""
    lists = {
        name: {**found, "data": list(found["data"])}
        for name, found in row["expanded"].items()
        if found is not None and found["object"] == "list"
    }
    row = {**row, "expanded": row["expanded"] | lists}
    over = size(row) - room
    while over > 0 and any(len(found["data"]) > least for found in lists.values()):
        longest = max(lists.values(), key=lambda found: len(found["data"]))
        over -= size(longest["data"].pop()) + 1
        longest["has_more"] = True
    return row


def _without_large_fields(row: dict[str, Any], room: int) -> dict[str, Any]:
    """The row with its largest fields replaced, largest first, until it fits."""
    data = dict(row["data"])
    over = size(row) - room
    for name in sorted(data, key=lambda field: size(data[field]), reverse=True):
        if over <= 0:
            break
        before = size(data[name])
        if before <= SMALL_FIELD_BYTES:
            break
        data[name] = _descriptor(row, name, data[name], before)
        over -= before - size(data[name])
    if over <= 0:
        return {**row, "data": data}
    return {**row, **_only_some(data, over)}


def _descriptor(row: dict[str, Any], name: str, value: object, total: int) -> dict[str, Any]:
    body = window_read(row["stream"], row["id"], name, row["connection_id"])
    described: dict[str, Any] = {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "total_bytes": total,
        "read": {key: body[key] for key in body if key != "object"},
    }
    if isinstance(value, str):
        described["total_chars"] = len(value)
        described["preview"] = value[: grapheme_floor(value, min(PREVIEW_CHARS, len(value)))]
    return described


def _only_some(data: dict[str, Any], over: int) -> dict[str, Any]:
    """Hundreds of small fields: the last ones give way, and are named as far as there is room."""
    kept = dict(data)
    omitted: list[str] = []
    for name in reversed(list(data)):
        if over <= 0:
            break
        over -= size(kept.pop(name)) + len(name) + 4
        omitted.append(name)
    named = omitted[::-1][:NAMED_OMISSIONS]
    return {"data": kept, "omitted_fields": named, "omitted_field_count": len(omitted)}
