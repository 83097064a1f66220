"""The text of a search result.

A host that knows only `search(query)` and `fetch(id)` finds `results` with id, title and url.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from mcp_adapter import ids, labels
from mcp_adapter.labels import clipped
from mcp_adapter.text.fitting import BAREST, mix, roomiest, shown_id
from mcp_adapter.text.marks import best_excerpt, marked

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
