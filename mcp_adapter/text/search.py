"""The text of a search result.

A host that knows only `search(query)` and `fetch(id)` finds `results` with id, title and url.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from mcp_adapter import ids, labels
from mcp_adapter.labels import clipped
from mcp_adapter.text.fitting import BAREST, mix, roomiest, shown_id

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


_TOLD_APART = frozenset({"count", "count_accuracy", "recall", "warnings"})
_LEAST_PREVIEW = 60
_LEAST_TITLE = 30
_KEPT = ("has_more", "next_cursor", "next")


def render(structured: dict[str, Any], *, most: int) -> str:
    """Every hit of the page with its complete id; evidence as far as there is room."""
    results, envelope = structured["results"], structured["data"]
    pairs = zip(results, envelope["data"], strict=True)
    hits = [_drawing(result, hit) for result, hit in pairs]
    after = {
        **_page(envelope),
        **_sources(results),
        "next": _next(results, by_meaning=any(map(_where_near, envelope["data"]))),
    }

    def draw(room: int) -> dict[str, Any]:
        if room == BAREST:
            bare = {name: after[name] for name in _KEPT if name in after}
            return {"results": [_bare(result) for result in results], **bare}
        return {"results": [hit(room) for hit in hits], **after}

    return roomiest(draw, items=len(hits), most=most)


def _drawing(result: dict[str, Any], hit: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """How to draw a hit with any room; what does not depend on it is done once."""
    head = {**shown_id(result["id"]), "title": result["title"], "url": result["url"]}
    if _apart(result):
        head["connection_id"] = result["connection_id"]
    if (source := labels.source(result)) and source not in result["title"]:
        head["source"] = source
    excerpt = best_excerpt(hit)
    if excerpt is None:
        shown = {**head, **_where_near(hit)}
        return lambda _room: shown
    head["field"] = excerpt["field_path"]

    def drawn(room: int) -> dict[str, Any]:
        return {**head, "match": marked(excerpt, room=max(room, _LEAST_PREVIEW))} if room else head

    return drawn


def _where_near(hit: dict[str, Any]) -> dict[str, Any]:
    """Where a hit without a proven match comes nearest in meaning: for a read, not as evidence."""
    snippet = hit.get("snippet", {})
    if snippet.get("provenance") != "semantic_passage":
        return {}
    return {"near": {"field_path": snippet["field"], "offset_chars": snippet["start_chars"]}}


def _bare(result: dict[str, Any]) -> dict[str, Any]:
    """A hit whose page has an address as long as all that a result may be."""
    shown = {**shown_id(result["id"]), "title": clipped(result["title"], _LEAST_TITLE)}
    return shown | ({"connection_id": result["connection_id"]} if _apart(result) else {})


def _apart(result: dict[str, Any]) -> bool:
    """Whether the connection has to be shown because the id does not hold it."""
    connection = result.get("connection_id")
    return bool(connection) and not ids.names_connection(result["id"], str(connection))


def _page(envelope: dict[str, Any]) -> dict[str, Any]:
    meta = envelope.get("meta", {})
    page: dict[str, Any] = {"has_more": envelope.get("has_more", False)}
    if envelope.get("next_cursor"):
        page["next_cursor"] = envelope["next_cursor"]
    if not isinstance(meta.get("count"), dict) and meta.get("count") is not None:
        page["count"] = {"value": meta["count"], "accuracy": meta.get("count_accuracy")}
    if meta.get("recall", {}).get("complete") is False:
        page["recall"] = meta["recall"]
    if meta.get("warnings"):
        page["warnings"] = meta["warnings"]
    rest = {name: value for name, value in meta.items() if name not in _TOLD_APART}
    return {**page, **({"meta": rest} if rest else {})}


def _sources(results: list[dict[str, Any]]) -> dict[str, Any]:
    if len({result.get("connection_id") for result in results}) < 2:
        return {}
    counts = Counter(labels.source(result) or "unnamed" for result in results)
    named = [({"source": name}, hits) for name, hits in counts.most_common()]
    return mix(named, unit="hits") or {"sources": [{**name, "hits": hits} for name, hits in named]}


def _next(results: list[dict[str, Any]], *, by_meaning: bool) -> str:
    if not results:
        return "No hit. Search other words or prefix*, or call schema and query_records."
    near = ", or with near's arguments what is near in meaning" if by_meaning else ""
    return (
        "fetch(id): pass an id as shown, with connection_id only where it is shown separately. "
        "read_record_field(id, field_path=field) reads the text around a match"
        f"{near}."
    )


EMPTY = {
    "has_more": False,
    "results": [],
    "next": _next([{}], by_meaning=True),
}
"""A page without any hit but with the longest of what else it may say."""
