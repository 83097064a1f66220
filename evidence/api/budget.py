"""``max_bytes``: a page that ends early rather than grow, and fields that become windows.

The bound is on ``data`` as UTF-8 JSON; envelope, links and cursor come on top and are small. A
record that is too large on its own keeps its identity and its small fields; each large text
becomes an explicit window descriptor with a preview and the call that reads it (decision 9).
"""

from collections.abc import Sequence
from typing import Any

import orjson

from evidence import limits
from evidence.analyser.graphemes import grapheme_floor
from evidence.api.envelopes import window_read
from evidence.api.params import Parameters
from evidence.refusals import InvalidRequest

PREVIEW_CHARS = 200
SMALL_FIELD_BYTES = 320
NAMED_OMISSIONS = 10
CHILD_SHARE, CHILD_BYTES = 4, 1_200
"""Where room is short no expanded record takes more than one part in four, or these bytes."""
ENVELOPE_BYTES = 900
"""Set aside for links, cursor and meta."""


def asked(query: Parameters) -> int | None:
    """``max_bytes``, or None for no bound. Raises ``InvalidRequest`` outside the allowed range."""
    most = query.integer("max_bytes")
    if most is None:
        return None
    if not limits.MAX_BYTES_LEAST <= most <= limits.MAX_BYTES_MOST:
        raise InvalidRequest(
            message=f"max_bytes takes {limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST}.",
            param="max_bytes",
        )
    return most


def size(value: object) -> int:
    """Bytes of UTF-8 JSON."""
    return len(orjson.dumps(value))


def fitted_hits(hits: Sequence[dict[str, Any]], *, most: int | None) -> list[dict[str, Any]]:
    """As many hits as fit; the first one gives up excerpts before it gives up itself."""
    if most is None:
        return list(hits)
    room = most - ENVELOPE_BYTES
    shown: list[dict[str, Any]] = []
    for hit in hits:
        fitting = hit
        while not shown and size(fitting) > room and fitting["evidence_excerpts"]:
            fitting = {**fitting, "evidence_excerpts": fitting["evidence_excerpts"][:-1]}
        cost = size(fitting) + 1
        if cost > room and shown:
            break
        shown.append(fitting)
        room -= cost
    return shown


def fitted(rows: Sequence[dict[str, Any]], *, most: int | None) -> list[dict[str, Any]]:
    """As many of ``rows``, in order, as fit; at least the first, with its large fields windowed."""
    if most is None:
        return list(rows)
    room = most - ENVELOPE_BYTES
    shown: list[dict[str, Any]] = []
    for row in rows:
        cost = size(row) + 1
        if cost > room and not shown:
            shown.append(_windowed(row, room))
            break
        if cost > room:
            break
        shown.append(row)
        room -= cost
    return shown


def _windowed(row: dict[str, Any], room: int) -> dict[str, Any]:
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
