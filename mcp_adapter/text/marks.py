"""Marked previews: a match inside its surroundings, with balanced tags or none."""

import re
from typing import Any

_OPEN, _CLOSE = "<mark>", "</mark>"
_TAG = re.compile(r"</?mark>")


def best_excerpt(hit: dict[str, Any]) -> dict[str, Any] | None:
    """The first proof of a match that does not merely repeat the title; None without a proof."""
    excerpts: list[dict[str, Any]] = hit.get("evidence_excerpts") or []
    beyond = (each for each in excerpts if each.get("plain_text") != hit.get("title"))
    return next(beyond, excerpts[0] if excerpts else None)


def marked(excerpt: dict[str, Any], *, room: int) -> str:
    """About `room` characters of the excerpt around its first match, the match marked.

    Where the text itself holds such tags, the preview has none: a tag is always ours.
    """
    plain, start, end = _plain(excerpt)
    if len(plain) > room:
        plain, start, end = _around(plain, start, end, room=room)
    if start >= end or _TAG.search(plain):
        return plain
    return f"{plain[:start]}{_OPEN}{plain[start:end]}{_CLOSE}{plain[end:]}"


def _plain(excerpt: dict[str, Any]) -> tuple[str, int, int]:
    """The text without tags, and where the match stands in it. The offsets are those of the field;
    where the excerpt begins within it, an ellipsis stands before."""
    plain = excerpt.get("plain_text")
    offsets = [excerpt.get(name) for name in _OFFSETS]
    if isinstance(plain, str) and all(isinstance(offset, int) for offset in offsets):
        base, until, start, end = (int(str(offset)) for offset in offsets)
        base -= base > 0 and len(plain) > until - base
        return plain, min(max(start - base, 0), len(plain)), min(max(end - base, 0), len(plain))
    return _untagged(str(excerpt.get("preview_text") or excerpt.get("text") or ""))


_OFFSETS = ("start_chars", "end_chars", "match_start_chars", "match_end_chars")


def _untagged(tagged: str) -> tuple[str, int, int]:
    start = tagged.find(_OPEN)
    end = tagged.find(_CLOSE, start)
    if start < 0 or end < 0 or tagged.count(_OPEN) != tagged.count(_CLOSE):
        return _TAG.sub("", tagged), 0, 0
    plain = _TAG.sub("", tagged)
    return plain, start, end - len(_OPEN)


def _around(plain: str, start: int, end: int, *, room: int) -> tuple[str, int, int]:
    """Cut to `room`, a third of what the match leaves before it and the rest after it."""
    spare = max(room - (end - start), room // 2)
    first = max(min(start - spare // 3, len(plain) - room), 0)
    last = min(max(first + room, end + spare // 2), len(plain))
    lead = "…" if first > 0 else ""
    trail = "…" if last < len(plain) else ""
    shift = len(lead) - first
    return f"{lead}{plain[first:last]}{trail}", start + shift, end + shift
