"""Render search results as text, with marked excerpts around each match.

A host that knows only `search(query)` and `fetch(id)` finds `results` with id, title and url.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from evidence import record_ids
from mcp_adapter import labels
from mcp_adapter.labels import clip
from mcp_adapter.text.fitting import HANDLE_ONLY, count_by_source, fit_items, id_members

_OPEN, _CLOSE = "<mark>", "</mark>"
_TAG = re.compile(r"</?mark>")
_RECORD_TAG = re.compile(r"<(?=/?mark\b)", re.IGNORECASE)


def best_excerpt(hit: dict[str, Any]) -> dict[str, Any] | None:
    """Return the first evidence excerpt that does not repeat the title, or else the first one."""
    excerpts: list[dict[str, Any]] = hit.get("evidence_excerpts") or []
    others = (excerpt for excerpt in excerpts if excerpt.get("plain_text") != hit.get("title"))
    return next(others, excerpts[0] if excerpts else None)


def highlight(excerpt: dict[str, Any], *, max_chars: int) -> str:
    """Return about `max_chars` characters of an excerpt around its first match, which is marked.

    A literal tag of the record becomes `&lt;mark>`, as in REST, so that all tags are ours.
    """
    text, start, end = _plain_match(excerpt)
    if len(text) > max_chars:
        text, start, end = _cut_around(text, start, end, max_chars=max_chars)
    before, match, after = (
        _RECORD_TAG.sub("&lt;", part) for part in (text[:start], text[start:end], text[end:])
    )
    return f"{before}{_OPEN}{match}{_CLOSE}{after}" if match else before + after


_OFFSETS = ("start_chars", "end_chars", "match_start_chars", "match_end_chars")


def _plain_match(excerpt: dict[str, Any]) -> tuple[str, int, int]:
    """Return the excerpt without tags, and start and end of the match in it.

    REST's offsets count from the start of the field. An excerpt from inside the field begins with
    an ellipsis.
    """
    plain = excerpt.get("plain_text")
    offsets = [excerpt.get(name) for name in _OFFSETS]
    if isinstance(plain, str) and all(isinstance(offset, int) for offset in offsets):
        base, until, start, end = (int(str(offset)) for offset in offsets)
        base -= base > 0 and len(plain) > until - base
        return plain, min(max(start - base, 0), len(plain)), min(max(end - base, 0), len(plain))
    return _parse_tagged(str(excerpt.get("preview_text") or excerpt.get("text") or ""))


def _parse_tagged(tagged: str) -> tuple[str, int, int]:
    plain = _TAG.sub("", tagged)
    start = tagged.find(_OPEN)
    end = tagged.find(_CLOSE, start)
    if start < 0 or end < 0 or tagged.count(_OPEN) != tagged.count(_CLOSE):
        return plain, 0, 0
    return plain, start, end - len(_OPEN)


def _cut_around(text: str, start: int, end: int, *, max_chars: int) -> tuple[str, int, int]:
    """Cut to `max_chars`, with a third of the context before the match and the rest after it."""
    context = max(max_chars - (end - start), max_chars // 2)
    first = max(min(start - context // 3, len(text) - max_chars), 0)
    last = min(max(first + max_chars, end + context // 2), len(text))
    lead = "…" if first > 0 else ""
    trail = "…" if last < len(text) else ""
    shift = len(lead) - first
    return f"{lead}{text[first:last]}{trail}", start + shift, end + shift


_RENDERED_META = frozenset({"count", "count_accuracy", "recall", "warnings"})
_MIN_EXCERPT_CHARS = 60
_MIN_TITLE_CHARS = 30
_ESSENTIAL_MEMBERS = ("has_more", "next_cursor", "next")


def render(structured: dict[str, Any], *, max_bytes: int) -> str:
    """Return every hit of the page with its complete id, and as much of its evidence as fits."""
    results, envelope = structured["results"], structured["data"]
    pairs = zip(results, envelope["data"], strict=True)
    renderers = [_hit_renderer(result, hit) for result, hit in pairs]
    after = {
        **_page(envelope),
        **_sources(results),
        "next": _next_step(results, by_meaning=any(map(_near, envelope["data"]))),
    }

    def render_page(max_chars: int) -> dict[str, Any]:
        if max_chars == HANDLE_ONLY:
            essential = {name: after[name] for name in _ESSENTIAL_MEMBERS if name in after}
            return {"results": [_short_result(result) for result in results], **essential}
        return {"results": [render_hit(max_chars) for render_hit in renderers], **after}

    return fit_items(render_page, items=len(renderers), max_bytes=max_bytes)


def _hit_renderer(result: dict[str, Any], hit: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """Return a renderer of the hit that takes a number of characters."""
    head = {**id_members(result["id"]), "title": result["title"], "url": result["url"]}
    if _needs_connection(result):
        head["connection_id"] = result["connection_id"]
    if (source := labels.source(result)) and source not in result["title"]:
        head["source"] = source
    if hit.get("word_forms"):
        head["word_forms"] = hit["word_forms"]
    excerpt = best_excerpt(hit)
    if excerpt is None:
        without_excerpt = {**head, **_near(hit)}
        return lambda _max_chars: without_excerpt
    head["field"] = excerpt["field_path"]

    def render_hit(max_chars: int) -> dict[str, Any]:
        if not max_chars:
            return head
        return {**head, "match": highlight(excerpt, max_chars=max(max_chars, _MIN_EXCERPT_CHARS))}

    return render_hit


def _near(hit: dict[str, Any]) -> dict[str, Any]:
    """Return where a hit without evidence is nearest in meaning, for read_record_field."""
    snippet = hit.get("snippet", {})
    if snippet.get("provenance") != "semantic_passage":
        return {}
    return {"near": {"field_path": snippet["field"], "offset_chars": snippet["start_chars"]}}


def _short_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a hit without its url, which alone can fill the budget."""
    short = {**id_members(result["id"]), "title": clip(result["title"], _MIN_TITLE_CHARS)}
    return short | ({"connection_id": result["connection_id"]} if _needs_connection(result) else {})


def _needs_connection(result: dict[str, Any]) -> bool:
    """Return whether to show the connection because the id does not include it."""
    connection = result.get("connection_id")
    return bool(connection) and not record_ids.includes_connection(result["id"], str(connection))


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
    rest = {name: value for name, value in meta.items() if name not in _RENDERED_META}
    return {**page, **({"meta": rest} if rest else {})}


def _sources(results: list[dict[str, Any]]) -> dict[str, Any]:
    if len({result.get("connection_id") for result in results}) < 2:
        return {}
    hits_by_source = Counter(labels.source(result) or "unnamed" for result in results)
    counts = [({"source": name}, hits) for name, hits in hits_by_source.most_common()]
    return count_by_source(counts, unit="hits") or {
        "sources": [{**label, "hits": hits} for label, hits in counts]
    }


def _next_step(results: list[dict[str, Any]], *, by_meaning: bool) -> str:
    if not results:
        return "No hit. Search other words or prefix*, or call schema and query_records."
    near = ", or with near's arguments what is near in meaning" if by_meaning else ""
    return (
        "fetch(id): pass an id as shown, with connection_id only where it is shown separately. "
        "read_record_field(id, field_path=field) reads the text around a match"
        f"{near}."
    )


EMPTY_PAGE = {
    "has_more": False,
    "results": [],
    "next": _next_step([{}], by_meaning=True),
}
"""A page without hits, with the longest next step: what remains of the budget is for hits."""
