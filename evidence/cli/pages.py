"""What stands below a page: counts, warnings, and how to get the next one."""

from collections.abc import Iterator
from typing import Any

from evidence.cli.shown import line


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
