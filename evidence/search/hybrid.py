"""Hybrid search: the lexical and the semantic ranking fused by reciprocal ranks.

The first ``WINDOW`` places of both rankings are fused; the lexical matches beyond follow in their own
order, so that every one of them can be reached. A cursor remembers which fused hits it has shown, so
a page shows nothing twice and skips nothing, whatever arrives or goes meanwhile.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from evidence.access.ranking.vectors import Near, waiting
from evidence.access.records import VisibleRecords
from evidence.errors import InvalidRequest
from evidence.search import lexical, semantic
from evidence.search.analysis.query_tree import Query
from evidence.search.query_planner import Meaning, searchable_fields
from evidence.search.results import Found, Hit, Key, Place, SearchRequest, Spellings

CONSTANT: Final = 10
"""Added to each place, so that the first ones do not decide alone."""
LEXICAL_WEIGHT: Final = 2
SEMANTIC_WEIGHT: Final = 1
"""Words that were asked for prove more than a likeness of meaning (docs/relevance.md)."""
MILLIONTHS: Final = 1_000_000

FusedKey = TypeVar("FusedKey", bound=tuple[str, ...])


def fused(lexical: Sequence[FusedKey], semantic: Sequence[FusedKey]) -> list[tuple[FusedKey, int]]:
    """Every key of both, best first, with its points; the same points are in order of the keys."""
    points: dict[FusedKey, int] = {}
    for ranking, weight in ((lexical, LEXICAL_WEIGHT), (semantic, SEMANTIC_WEIGHT)):
        for place, key in enumerate(ranking, 1):
            worth = weight * MILLIONTHS // (CONSTANT + place)
            points[key] = points.get(key, 0) + worth
    return sorted(points.items(), key=lambda item: (-item[1], item[0]))


WINDOW: Final = 100
MARK_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """What a cursor remembers: marks of the fused hits that were shown, the last lexical hit beyond
    the window, and whether any word sufficed."""

    shown: frozenset[bytes] = frozenset()
    beyond: Place | None = None
    settled: Spellings | None = None


def search(
    query: Query, visible: Sequence[VisibleRecords], meaning: Meaning, request: SearchRequest
) -> Found:
    """A query with operators asks for exact words and has its lexical ranking alone. Else five
    queries beyond the token's, and more as in lexical search."""
    question = semantic.plain_words(query, quoted=False)
    if request.newest_first:
        raise InvalidRequest(message="Only lexical search sorts by time.", param="sort")
    if question is None:
        return lexical.search(query, visible, request)
    searched = [each for each in visible if searchable_fields(each)]
    before = _resumed(request.after)
    if before.beyond is not None:
        return _beyond(query, searched, request, before, before.beyond)
    words = lexical.settle(query, searched, lexical.Page(WINDOW), settled=before.settled)
    near = semantic.near_to(question, meaning, limit=WINDOW)
    found = _fused(words, near, meaning, request, before)
    found = replace(found, waiting=waiting(meaning.asked, meaning.known))
    room = request.limit - len(found.hits)
    if found.has_more or not words.has_more:
        return found
    settled = Progress(_all_of(before, words.hits, near), None, words.any_word)
    last = lexical.place_of(words.hits[-1])
    rest = _beyond(query, searched, replace(request, limit=max(room, 1)), settled, last)
    return _joined(found, rest, room)


def _fused(
    words: Found, near: Sequence[Near], meaning: Meaning, request: SearchRequest, before: Progress
) -> Found:
    """A page of the fused part."""
    by_words = {hit.key: hit for hit in words.hits}
    by_meaning = {each[2:5]: each for each in near}
    order = [
        (key, points)
        for key, points in fused(list(by_words), list(by_meaning))
        if _mark(key) not in before.shown
    ]
    here = order[: request.limit]
    only_near = [by_meaning[key] for key, _ in here if key not in by_words]
    hits = by_words | {hit.key: hit for _, hit in semantic.hits_of(meaning, only_near)}
    shown = [
        replace(hits[key], near=by_meaning.get(key), fused=points)
        for key, points in here
        if key in hits
    ]

    def place(count: int) -> Place:
        marks = before.shown | {_mark(hit.key) for hit in shown[:count]}
        return _remembered(Progress(marks, None, words.any_word))

    return Found(
        hits=shown,
        has_more=len(order) > request.limit,
        place=place,
        complete=words.complete and len(near) < WINDOW,
        window=WINDOW if words.has_more or len(near) == WINDOW else None,
        any_word=words.any_word,
        suggestions=words.suggestions,
        holders=words.holders,
    )


def _beyond(
    query: Query,
    searched: Sequence[VisibleRecords],
    request: SearchRequest,
    before: Progress,
    last: Place,
) -> Found:
    """A page of the lexical matches beyond the window."""
    hits: list[Hit] = []
    while True:
        page = lexical.Page(request.limit, after=lexical.rank_of(last))
        found = lexical.settle(query, searched, page, settled=before.settled)
        hits += [hit for hit in found.hits if _mark(hit.key) not in before.shown]
        if hits or not found.has_more:
            break
        last = lexical.place_of(found.hits[-1])
    shown = hits[: request.limit]

    def place(count: int) -> Place:
        return _remembered(replace(before, beyond=lexical.place_of(shown[count - 1])))

    return replace(found, hits=shown, place=place, window=WINDOW, complete=False, count=None)


def _joined(found: Found, rest: Found, room: int) -> Found:
    """The last of the fused hits, and the first of those beyond as far as there is room."""
    hits = [*found.hits, *rest.hits[:room]]
    until = len(found.hits)

    def place(count: int) -> Place:
        return found.place(count) if count <= until else rest.place(count - until)

    has_more = rest.has_more or len(rest.hits) > room
    return replace(found, hits=hits, place=place, has_more=has_more)


def _all_of(before: Progress, words: Sequence[Hit], near: Sequence[Near]) -> frozenset[bytes]:
    keys = [*(hit.key for hit in words), *(each[2:5] for each in near)]
    return before.shown | set(map(_mark, keys))


def _mark(key: Key) -> bytes:
    return hashlib.blake2b("\0".join(key).encode(), digest_size=MARK_BYTES).digest()


def _remembered(progress: Progress) -> Place:
    marks = base64.b64encode(b"".join(sorted(progress.shown))).decode()
    return {"h": marks, "b": progress.beyond, "x": progress.settled}


def _resumed(place: Place | None) -> Progress:
    if place is None:
        return Progress()
    marks = base64.b64decode(place["h"])
    shown = (marks[at : at + MARK_BYTES] for at in range(0, len(marks), MARK_BYTES))
    return Progress(frozenset(shown), place["b"], place["x"])
