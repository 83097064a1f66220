"""Run hybrid search: fuse lexical and semantic rankings by reciprocal rank.

The first ``FUSION_WINDOW`` hits of both rankings are fused. The remaining lexical matches follow in
lexical order, so that all are reachable. A cursor stores which fused hits were shown, so that pages
neither repeat nor skip hits while records change.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from evidence.access.ranking.vectors import NearestPassage, streams_without_vectors
from evidence.access.records import VisibleRecords
from evidence.errors import InvalidRequest
from evidence.search import lexical, semantic
from evidence.search.analysis.query import Query
from evidence.search.query_planner import searchable_fields
from evidence.search.results import (
    CursorState,
    Hit,
    HitKey,
    SearchRequest,
    SearchResult,
)
from evidence.search.semantic import SemanticSearchScope

RANK_CONSTANT: Final = 10
"""Added to each rank, so that the first ranks do not decide alone."""
MEANING: Final = 1_000_000
ALL_WORDS: Final = 3 * MEANING
SOME_WORDS: Final = MEANING
FEW_WORDS: Final = MEANING // 2
"""Weights of similar meaning, of records with all words and, where none has all, of those with the most of
them: less if none of these stands out."""

FusedKey = TypeVar("FusedKey", bound=tuple[str, ...])


def fuse_rankings(
    lexical: Sequence[FusedKey],
    semantic: Sequence[FusedKey],
    *,
    weight: int = ALL_WORDS,
    clear_winner: bool = False,
) -> list[tuple[FusedKey, int]]:
    """Return the keys of both rankings with their points, best first; ties in key order.

    The first lexical key counts twice if it is a ``clear_winner``, and then stays first.
    """
    points: dict[FusedKey, int] = {}
    for ranking, first_points in ((lexical, weight), (semantic, MEANING)):
        for rank, key in enumerate(ranking, 1):
            points[key] = points.get(key, 0) + first_points // (RANK_CONSTANT + rank)
    if clear_winner:
        points[lexical[0]] += weight // (RANK_CONSTANT + 1)
    return sorted(points.items(), key=lambda item: (-item[1], item[0]))


def has_clear_winner(hits: Sequence[Hit]) -> bool:
    """Return whether the first lexical hit has at least an eighth more points than the second."""
    scores = [hit.candidate.score for hit in hits[:2] if hit.candidate is not None]
    return len(scores) == 1 or (len(scores) == 2 and scores[0] * 8 >= scores[1] * 9)


FUSION_WINDOW: Final = 100
HIT_DIGEST_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class HybridProgress:
    """Content of a cursor: digests of the shown fused hits, and the last lexical hit after the window."""

    shown: frozenset[bytes] = frozenset()
    last_lexical: CursorState | None = None


def search(
    query: Query,
    question: str | None,
    visible: Sequence[VisibleRecords],
    scope: SemanticSearchScope,
    request: SearchRequest,
) -> SearchResult:
    """Return one page of hits. A query with operators is no question, and uses the lexical ranking only.

    Otherwise runs five queries after authentication, plus the additional ones of lexical search.
    """
    if request.newest_first:
        raise InvalidRequest(message="sort requires lexical search; omit mode.", param="sort")
    if question is None:
        return lexical.search(query, visible, request)
    searched = [stream for stream in visible if searchable_fields(stream)]
    before = _decode_progress(request.after)
    if before.last_lexical is not None:
        return _lexical_page(query, searched, request, before, before.last_lexical)
    lexical_result = lexical.search_with_fallback(
        query, searched, lexical.LexicalPage(FUSION_WINDOW)
    )
    passages = semantic.find_nearest(question, scope, limit=FUSION_WINDOW)
    fused = _fused_page(lexical_result, passages, scope, request, before)
    fused = replace(fused, waiting=streams_without_vectors(scope.streams, scope.progress))
    if fused.has_more or not lexical_result.has_more:
        return fused
    room = request.limit - len(fused.hits)
    shown = _shown_digests(before, lexical_result.hits, passages)
    progress = HybridProgress(shown)
    last = lexical.encode_position(lexical_result.hits[-1])
    rest = _lexical_page(query, searched, replace(request, limit=max(room, 1)), progress, last)
    return _append_page(fused, rest, room)


def _fused_page(
    lexical_result: SearchResult,
    passages: Sequence[NearestPassage],
    scope: SemanticSearchScope,
    request: SearchRequest,
    before: HybridProgress,
) -> SearchResult:
    """Return a page of fused hits."""
    by_words = {hit.key: hit for hit in lexical_result.hits}
    by_meaning = {passage[2:5]: passage for passage in passages}
    clear_winner = has_clear_winner(lexical_result.hits)
    weight = SOME_WORDS if clear_winner else FEW_WORDS
    weight = ALL_WORDS if lexical_result.any_word is None else weight
    fused = fuse_rankings(
        list(by_words), list(by_meaning), weight=weight, clear_winner=clear_winner
    )
    order = [(key, points) for key, points in fused if _hit_digest(key) not in before.shown]
    page_keys = order[: request.limit]
    semantic_only = [by_meaning[key] for key, _ in page_keys if key not in by_words]
    hits = by_words | {hit.key: hit for _, hit in semantic.load_hits(scope, semantic_only)}
    page_hits = [
        replace(hits[key], near=by_meaning.get(key), fused=points)
        for key, points in page_keys
        if key in hits
    ]

    def cursor_state(count: int) -> CursorState:
        digests = before.shown | {_hit_digest(hit.key) for hit in page_hits[:count]}
        return _encode_progress(HybridProgress(digests))

    return replace(
        lexical_result,
        hits=page_hits,
        has_more=len(order) > request.limit,
        cursor_state=cursor_state,
        count=None,
        lower_bound=False,
        complete=lexical_result.complete and len(passages) < FUSION_WINDOW,
        window=FUSION_WINDOW if lexical_result.has_more or len(passages) == FUSION_WINDOW else None,
    )


def _lexical_page(
    query: Query,
    searched: Sequence[VisibleRecords],
    request: SearchRequest,
    before: HybridProgress,
    last: CursorState,
) -> SearchResult:
    """Return a page of the lexical matches after the window."""
    hits: list[Hit] = []
    while True:
        after = lexical.decode_position(last)
        page = lexical.LexicalPage(request.limit, after=after)
        result = lexical.search_with_fallback(query, searched, page)
        hits += [hit for hit in result.hits if _hit_digest(hit.key) not in before.shown]
        if hits or not result.has_more:
            break
        last = lexical.encode_position(result.hits[-1])
    page_hits = hits[: request.limit]

    def cursor_state(count: int) -> CursorState:
        return _encode_progress(
            replace(before, last_lexical=lexical.encode_position(page_hits[count - 1]))
        )

    return replace(
        result,
        hits=page_hits,
        cursor_state=cursor_state,
        window=FUSION_WINDOW,
        complete=False,
        count=None,
    )


def _append_page(fused: SearchResult, rest: SearchResult, room: int) -> SearchResult:
    """Return the last fused hits, followed by up to `room` of the lexical ones."""
    hits = [*fused.hits, *rest.hits[:room]]
    fused_count = len(fused.hits)

    def cursor_state(count: int) -> CursorState:
        return (
            fused.cursor_state(count)
            if count <= fused_count
            else rest.cursor_state(count - fused_count)
        )

    has_more = rest.has_more or len(rest.hits) > room
    return replace(fused, hits=hits, cursor_state=cursor_state, has_more=has_more)


def _shown_digests(
    before: HybridProgress, lexical_hits: Sequence[Hit], passages: Sequence[NearestPassage]
) -> frozenset[bytes]:
    keys = [*(hit.key for hit in lexical_hits), *(passage[2:5] for passage in passages)]
    return before.shown | set(map(_hit_digest, keys))


def _hit_digest(key: HitKey) -> bytes:
    return hashlib.blake2b("\0".join(key).encode(), digest_size=HIT_DIGEST_BYTES).digest()


def _encode_progress(progress: HybridProgress) -> CursorState:
    digests = base64.b64encode(b"".join(sorted(progress.shown))).decode()
    return {"h": digests, "b": progress.last_lexical}


def _decode_progress(state: CursorState | None) -> HybridProgress:
    if state is None:
        return HybridProgress()
    digests = base64.b64decode(state["h"])
    shown = (digests[at : at + HIT_DIGEST_BYTES] for at in range(0, len(digests), HIT_DIGEST_BYTES))
    return HybridProgress(frozenset(shown), state["b"])
