"""Run lexical search over all matches and return hits with excerpts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from evidence.access.ranking.matches import Matches
from evidence.access.ranking.scores import Candidate, StreamQuery
from evidence.access.records import VisibleRecords
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.query import Leaf, Query
from evidence.search.analysis.query_relaxation import has_operators, match_any_word
from evidence.search.query_planner import plan_queries, query_languages, searchable_fields
from evidence.search.results import (
    CursorState,
    Hit,
    HitBuilder,
    SearchRequest,
    SearchResult,
    Spellings,
    WordWeights,
    absent_leaves,
    has_alternatives,
)
from evidence.search.suggestions import suggest_spellings, suggestion_holders

COUNT_LIMIT = 10_000
"""Matches that are counted exactly; also the records in which a phrase or exact word is verified.

With more candidates the count is a lower bound, and recall is incomplete if a page is not full.
"""
CANDIDATE_BATCH_SIZE = 200
FREQUENT_COUNT = 1_000
"""Words that so many visible records contain have the weight 1 in a search for any word."""
MOST_ANY_WORD = 5
"""Records shown where none has all the words: more would read like matches, and hide that there are none."""
MAX_WEIGHTED_WORDS = 16
"""With more words, all have the weight 1, because each is counted."""
UNCOUNTED_LIMIT = 100
"""Records in which a phrase is verified at once, if its matches are not counted."""
UNCOUNTED_CANDIDATES = 400
"""Records that are ranked first if very many have the words of such a phrase; others if need be."""


@dataclass(frozen=True, slots=True)
class LexicalPage:
    """Start, length and order of a page.

    ``counted`` is what its first page counted in texts, ``shown`` how many hits of any word came before.
    """

    limit: int
    newest_first: bool = False
    after: Candidate | None = None
    counted: tuple[int, bool] | None = None
    shown: int = 0
    count_phrases: bool = True


def search(query: Query, visible: Sequence[VisibleRecords], request: SearchRequest) -> SearchResult:
    """Return one page of hits.

    Runs three queries after authentication: count, positions, records. Very frequent words, phrases
    and queries without results (spellings, then any word) need more.
    """
    has_streams = request.streams is not None
    skipped = [stream for stream in visible if has_streams and not searchable_fields(stream)]
    searched = [stream for stream in visible if searchable_fields(stream)]
    page = LexicalPage(request.limit, request.newest_first, count_phrases=request.count_phrases)
    if (state := request.after) is not None:
        counted = state["k"] and tuple(state["k"])
        page = replace(page, after=decode_position(state), counted=counted, shown=state.get("x", 0))
    return replace(search_with_fallback(query, searched, page), skipped=skipped)


def search_with_fallback(
    query: Query, searched: Sequence[VisibleRecords], page: LexicalPage
) -> SearchResult:
    """Search for all words or, if no record has all, return the few with the most of them."""
    result = _search_page(query, searched, page)
    if (page.after is not None and not page.shown) or (result.hits and not has_alternatives(query)):
        return result
    absent = _counted_absent(query, result)
    if absent is None:
        absent = absent_leaves(query, searched)
    absent_words = [leaf.text for leaf in absent]
    if result.hits:
        return replace(result, absent_words=absent_words)
    spellings = suggest_spellings(query, searched, absent=absent)
    relaxed = match_any_word(query, languages=query_languages(searched))
    if relaxed != query and not has_operators(query):
        result = _search_any_word(query, searched, page, spellings=spellings)
    result = replace(result, absent_words=absent_words)
    return _with_suggestions(result, spellings, searched)


def _counted_absent(query: Query, result: SearchResult) -> Collection[Leaf] | None:
    """Return the word of a query of one word that the search found nowhere, else None."""
    is_absent = not (result.count or result.lower_bound)
    return [query.root] if isinstance(query.root, Leaf) and is_absent else None


def _with_suggestions(
    result: SearchResult, spellings: Spellings, searched: Sequence[VisibleRecords]
) -> SearchResult:
    """Add the suggestions that some visible record still contains."""
    holders = suggestion_holders(spellings, searched)
    suggestions = {
        word: [other for other in others if other in holders]
        for word, others in spellings.items()
        if any(other in holders for other in others)
    }
    return replace(result, suggestions=suggestions, holders=list(chain(*holders.values())))


def _search_any_word(
    query: Query, searched: Sequence[VisibleRecords], page: LexicalPage, *, spellings: Spellings
) -> SearchResult:
    """Return at most MOST_ANY_WORD records. Words that few visible records contain count more."""
    languages = query_languages(searched)
    relaxed = match_any_word(query, languages=languages, spellings=spellings)
    weights = _word_weights(relaxed, searched)
    relaxed = match_any_word(query, languages=languages, spellings=spellings, weights=weights)
    room = MOST_ANY_WORD - page.shown
    result = _search_page(relaxed, searched, replace(page, limit=min(page.limit, room)))
    return replace(
        result,
        has_more=result.has_more and page.limit < room,
        cursor_state=lambda count: {**result.cursor_state(count), "x": page.shown + count},
        any_word=spellings,
    )


def _word_weights(query: Query, searched: Sequence[VisibleRecords]) -> WordWeights:
    """Return a weight of 1 for frequent words, and 1 more for each halving of the matches."""
    leaves = list(dict.fromkeys(query.positive_leaves()))
    if not 1 < len(leaves) <= MAX_WEIGHTED_WORDS:
        return {}
    counts = [_count_word(leaf, searched) for leaf in leaves]
    return {
        leaf.text: (FREQUENT_COUNT // count).bit_length()
        for leaf, count in zip(leaves, counts, strict=True)
        if 0 < count <= FREQUENT_COUNT
    }


def _count_word(leaf: Leaf, searched: Sequence[VisibleRecords]) -> int:
    """Return the number of visible records with a word; beyond FREQUENT_COUNT some larger number."""
    plans = plan_queries(Query(leaf), searched, scored=False)
    return Matches(plans, counted_to=FREQUENT_COUNT).count


def _search_page(
    query: Query, searched: Sequence[VisibleRecords], page: LexicalPage
) -> SearchResult:
    plans = plan_queries(query, searched)
    from_text = needs_text_check(query, plans)
    matches = Matches(plans, counted_to=COUNT_LIMIT, newest=page.newest_first)
    read = _verified_hits(query, matches, page, from_text=from_text)
    counted = page.counted or read.counted if from_text else None
    count, exact = counted or (matches.count, matches.count <= COUNT_LIMIT)
    page_hits, is_full = read.hits[: page.limit], len(read.hits) > page.limit
    return SearchResult(
        hits=page_hits,
        has_more=is_full or not read.exhausted,
        cursor_state=lambda shown: {**encode_position(page_hits[shown - 1]), "k": counted},
        count=min(count, COUNT_LIMIT),
        lower_bound=not exact,
        complete=read.complete and (read.exhausted or is_full),
    )


@dataclass(frozen=True, slots=True)
class VerifiedPage:
    """Up to ``limit`` + 1 hits, and how far the candidates were read.

    ``exhausted`` is whether all were read, ``complete`` whether the texts up to the last hit were read
    far enough, ``counted`` the number of verified candidates and whether it is exact.
    """

    hits: list[Hit]
    exhausted: bool
    complete: bool
    counted: tuple[int, bool]


class _PageReader:
    """Verifies candidates in order until the page is full."""

    def __init__(
        self, query: Query, matches: Matches, page: LexicalPage, *, max_read: int, counts: bool
    ) -> None:
        self.hits: list[Hit] = []
        self.count = 0
        self.complete = True
        self.builder = HitBuilder(query)
        self._matches = matches
        self._max_hits = page.limit + 1
        self._batch_size = CANDIDATE_BATCH_SIZE if counts else UNCOUNTED_LIMIT
        # A first page reads on to count its matches.
        min_read = max_read if counts else UNCOUNTED_LIMIT
        self._min_read = min_read if page.after is None else 0

    @property
    def is_full(self) -> bool:
        return len(self.hits) == self._max_hits

    def read(self, candidates: Sequence[Candidate]) -> bool:
        """Return whether all candidates were read; false if the page is full before their end.

        The order of words excludes most texts without the phrase. It is tested in the fields that the
        grant shows, like the texts, so that hidden fields do not change how far this reads.
        """
        possible = [hit for hit in candidates if hit.is_possible]
        for start in range(0, len(possible), self._batch_size):
            if self.builder.exhausted or (self.is_full and start >= self._min_read):
                return False
            batch = self._matches.load(possible[start : start + self._batch_size])
            found = self.builder.to_hits(batch)
            self.count += len(found)
            if not self.is_full:
                self.hits.extend(found[: self._max_hits - len(self.hits)])
                self.complete = self.builder.complete
        return True


def _verified_hits(
    query: Query, matches: Matches, page: LexicalPage, *, from_text: bool
) -> VerifiedPage:
    """Read candidates until the page is full. A first page of verified hits reads on to count them.

    It does not if there are too many candidates for an exact count.
    """
    max_read = COUNT_LIMIT + 1 if from_text else page.limit + 1
    has_too_many = from_text and matches.count > COUNT_LIMIT
    limit = UNCOUNTED_CANDIDATES if has_too_many else max_read
    counts = page.count_phrases and not has_too_many
    reader = _PageReader(query, matches, page, max_read=max_read, counts=counts)
    candidates = matches.hits(limit=limit, after=page.after)
    is_read = reader.read(candidates)
    if is_read and len(candidates) == limit < max_read:
        is_read = not reader.is_full
        if is_read:
            others = matches.hits(limit=max_read - limit, after=candidates[-1])
            is_read = reader.read(others)
            candidates += others
    exhausted = is_read and len(candidates) < max_read and not reader.builder.exhausted
    is_exact = page.after is None and exhausted and reader.builder.complete
    counted = (reader.count, is_exact)
    return VerifiedPage(reader.hits, exhausted=exhausted, complete=reader.complete, counted=counted)


def needs_text_check(query: Query, plans: Sequence[StreamQuery]) -> bool:
    """Return whether matches need a check of the text: for a phrase or an excluded phrase."""
    return any(
        needs_verification(query, languages=plan.visible.connections[0].languages) for plan in plans
    )


def encode_position(hit: Hit) -> CursorState:
    """Return the position of a lexical hit as JSON."""
    found = hit.candidate
    if found is None:
        raise TypeError("a semantic hit has no lexical position")
    ids = {"c": found.connection_id, "s": found.stream, "r": found.record_key}
    return {"n": found.score, "t": found.at, **ids}


def decode_position(state: Mapping[str, Any]) -> Candidate:
    return Candidate(-1, state["n"], state["t"], state["c"], state["s"], state["r"])
