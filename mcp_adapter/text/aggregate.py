"""The text of an aggregate: one value, or groups."""

from typing import Any

from mcp_adapter.json_text import dumps, wire_size

_SAID = ("metric", "stream", "field", "value", "group_by", "group_by_time", "granularity")
_NEXT = "query_records(stream, filter) lists the records"


def render(structured: dict[str, Any], *, most: int) -> str:
    """The value, or as many groups as fit, the rest counted in `groups_left_out`."""
    body = structured["data"]
    said = {name: body[name] for name in _SAID if body.get(name) is not None}
    if warnings := body.get("meta", {}).get("warnings"):
        said["warnings"] = warnings
    groups = body.get("groups")
    if groups is None:
        return dumps({**said, "value": body.get("value"), "next": _NEXT})
    said |= {
        name: body[name] for name in ("time_zone", "other_count") if body.get(name) is not None
    }
    text, shown = "", len(groups)
    while shown >= 0:
        text = dumps(_grouped(said, groups, shown=shown))
        if wire_size(text) <= most:
            return text
        shown = shown - 1 if shown < 8 else shown * 3 // 4
    return text


def _grouped(said: dict[str, Any], groups: list[dict[str, Any]], *, shown: int) -> dict[str, Any]:
    left_out = len(groups) - shown
    rest: dict[str, Any] = {"groups_left_out": left_out} if left_out else {}
    more = (
        f"aggregate with limit={max(shown, 1)} or a filter shows fewer groups; " if left_out else ""
    )
    # What was asked of each group; a count where nothing else was.
    pairs = [[group.get("key"), group.get("value", group.get("count"))] for group in groups[:shown]]
    return {**said, "groups": pairs, **rest, "next": f"{more}{_NEXT}"}
