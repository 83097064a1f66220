"""The search request, its hits, the words that it did not find, and the result page."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final, Protocol, TypeAlias

from evidence.access.ranking.matches import Match, Matches
from evidence.access.ranking.scores import Candidate
from evidence.access.ranking.vectors import NearestPassage, StreamKey
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.declaration import field_text
from evidence.search.analysis.highlighter import Passage, best_passages
from evidence.search.analysis.matcher import (
    Verifier,
    find_matches,
    is_written_in,
    needs_verification,
)
from evidence.search.analysis.query import Leaf, Node, Not, Or, Query
from evidence.search.analysis.tokenizer import UNITS_PER_TEXT, WorkLimit
from evidence.search.query_planner import plan_queries


@dataclass(frozen=True, slots=True)
class SuggestionHolder:
    """A visible record that contains a suggested word, and the fields that contain it."""

    connection_id: str
    stream: str
    record_key: str
    fields: frozenset[str]


PASSAGES_PER_HIT = 3
WORK_PER_SEARCH = 1_500_000
"""Units of work (`WorkLimit`) for the checks of one search; its excerpts get as many."""
MIN_WORK_PER_HIT = 10_000
"""Units that each hit gets even if earlier hits used up the limit."""

HitKey: TypeAlias = tuple[str, str, str]
"""connection_id, stream, record_key"""

Spellings: TypeAlias = Mapping[str, Sequence[str]]
"""Alternative spellings of each query word."""
WordWeights: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage of one granted field."""

    field: str
    text: str
    passage: Passage


@dataclass(frozen=True)
class Hit:
    """A record found by its words, by its meaning, or by both.

    ``query`` and ``candidate`` are the lexical match and its place, ``near`` is the nearest passage,
    and ``fused`` the points of both rankings.
    """

    visible: VisibleRecords
    record: VisibleRecord
    query: Query | None = None
    candidate: Candidate | None = None
    near: NearestPassage | None = None
    fused: int | None = field(default=None, kw_only=True)
    work: WorkLimit = field(default_factory=WorkLimit, kw_only=True, compare=False)
    """Shared by the hits of one search, so that the limit applies to a whole page."""

    @property
    def key(self) -> HitKey:
        record = self.record
        return record.connection.connection_id, self.visible.stream.name, record.record_key

    @cached_property
    def excerpts(self) -> Sequence[Excerpt]:
        """The passages that prove the match; empty if no query word occurs (B3)."""
        if self.query is None:
            return ()
        languages = self.record.connection.languages
        with self.work.share(max_units=UNITS_PER_TEXT // 4, min_units=MIN_WORK_PER_HIT) as part:
            return _excerpts(self.query, dict(visible_texts(self)), languages, part)

    @property
    def nearest(self) -> Excerpt | None:
        """The passage nearest in meaning, which is no proof of a match."""
        near = self.near
        if near is None or not self.visible.shows(near.field):
            return None
        text = field_text(self.record.data.get(near.field))
        # The record may have changed after the passage was embedded.
        if near.end > len(text):
            return None
        return Excerpt(near.field, text, Passage(near.start, near.end, ()))


class RecordOfStream(Protocol):
    """A record with its stream: a Match or a Hit."""

    @property
    def visible(self) -> VisibleRecords: ...
    @property
    def record(self) -> VisibleRecord: ...


@dataclass(frozen=True)
class HitBuilder:
    """Turns the matches of one search into hits, within the work limit of one search."""

    query: Query
    _checks: WorkLimit = field(default_factory=lambda: WorkLimit(WORK_PER_SEARCH))
    _excerpts: WorkLimit = field(default_factory=lambda: WorkLimit(WORK_PER_SEARCH))
    _unread: list[Match] = field(default_factory=list)
    _verifiers: dict[frozenset[str], Verifier] = field(default_factory=dict)

    @property
    def exhausted(self) -> bool:
        return self._checks.exhausted

    @property
    def complete(self) -> bool:
        """Whether every text was read far enough to decide."""
        return not self._unread

    def to_hits(self, matches: Sequence[Match]) -> list[Hit]:
        """Return the hits, without the matches whose texts do not satisfy the query."""
        by_languages: dict[frozenset[str], list[Match]] = {}
        for match in matches:
            languages = frozenset(match.record.connection.languages)
            by_languages.setdefault(languages, []).append(match)
        dropped = {id(match) for group in by_languages.items() for match in self._dropped(*group)}
        return [
            Hit(match.visible, match.record, self.query, match.candidate, work=self._excerpts)
            for match in matches
            if id(match) not in dropped
        ]

    def _dropped(self, key: frozenset[str], matches: Sequence[Match]) -> Iterator[Match]:
        """Yield the matches that do not satisfy the query, and those that were not read.

        The order of their languages makes no difference.
        """
        languages = matches[0].record.connection.languages
        if not needs_verification(self.query, languages=languages):
            return
        if key not in self._verifiers:
            self._verifiers[key] = Verifier(self.query, languages=languages)
        texts = [dict(visible_texts(match)) for match in matches]
        verified = self._verifiers[key].verify_all(texts, work=self._checks)
        for match, is_verified in zip_longest(matches, verified):
            if is_verified is None:
                self._unread.append(match)
            if not is_verified:
                yield match


def visible_texts(match: RecordOfStream) -> Iterator[tuple[str, str]]:
    """Yield name and text of the searchable fields that the grant shows, as indexed."""
    for name in match.visible.stream.lexical_fields:
        if name in match.record.data:
            yield name, field_text(match.record.data[name])


def _excerpts(
    query: Query, texts: dict[str, str], languages: tuple[str, ...], work: WorkLimit
) -> list[Excerpt]:
    """Return the best passages of all fields, best first; one of them is of the longest text."""
    excerpts = [
        Excerpt(name, text, passage)
        for name, text in texts.items()
        for passage in best_passages(
            text, query, languages=languages, field=name, limit=PASSAGES_PER_HIT, work=work
        )
    ]
    excerpts.sort(key=lambda excerpt: -_count_marked_words(excerpt))
    longest = max(excerpts, key=lambda excerpt: len(excerpt.text), default=None)
    best = excerpts[:PASSAGES_PER_HIT]
    if longest is None or any(excerpt.field == longest.field for excerpt in best):
        return best
    return [*best[:-1], longest]


def _count_marked_words(excerpt: Excerpt) -> int:
    """Return the number of different marked words, which ranks passages across fields."""
    return len({excerpt.text[start:end].casefold() for start, end in excerpt.passage.marks})


CursorState = Mapping[str, Any]
"""The content of a cursor as JSON: where a page ended. Each search mode has its own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    q: str
    mode: str
    streams: Sequence[str] | None
    connection_id: str | None
    filters: Sequence[tuple[tuple[str, ...], str]]
    limit: int
    newest_first: bool
    after: CursorState | None
    exact: bool = False
    since: str | None = None
    until: str | None = None
    count_phrases: bool = True
    """Whether to count all matches of a phrase, which takes longer than to find a page of them."""
    restrict: Callable[[VisibleRecords], VisibleRecords] | None = None
    """Excludes further records of each stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One page of hits, and how complete the search is.

    ``count`` is exact unless ``lower_bound``, and None if nothing was counted. ``complete`` means
    that cursors reach every match; ``window`` is the number of hits fused per ranking. With
    ``any_word``, hits match any word or any of these spellings, and are the few with the most of them.
    ``asked`` is the query without stop words, and no visible record matches its ``absent_words``. ``holders`` are the records that
    the ``suggestions`` disclose. ``cursor_state(n)`` is the cursor after the first ``n`` hits.
    ``waiting`` lists streams with visible texts that have no vector yet; ``reindexing`` lists
    streams that may still be indexed for other languages or by an older analyzer.
    """

    hits: Sequence[Hit]
    has_more: bool
    cursor_state: Callable[[int], CursorState]
    skipped: Sequence[VisibleRecords] = ()
    count: int | None = None
    lower_bound: bool = False
    complete: bool = True
    window: int | None = None
    lexical: bool = True
    any_word: Spellings | None = None
    asked: Query | None = None
    absent_words: Sequence[str] = ()
    suggestions: Spellings = field(default_factory=dict)
    holders: Sequence[SuggestionHolder] = ()
    waiting: Sequence[StreamKey] = ()
    reindexing: Sequence[StreamKey] = ()


MAX_WORDS_CHECKED: Final = 8
"""Words of a query to look up; each costs one query."""
MAX_CANDIDATES_READ: Final = 200
"""Candidates for an exact word or phrase before its absence stays unknown."""
MAX_FORMS: Final = 3


def absent_leaves(query: Query, searched: Sequence[VisibleRecords]) -> Collection[Leaf]:
    """Return the words and phrases that no visible record matches, in query order."""
    leaves = dict.fromkeys(query.positive_leaves())
    return [leaf for leaf in list(leaves)[:MAX_WORDS_CHECKED] if _is_absent(leaf, searched)]


def are_cut(query: Query) -> bool:
    """Return whether a query has more words than are looked up when they are absent."""
    return len(set(query.positive_leaves())) > MAX_WORDS_CHECKED


def has_alternatives(query: Query) -> bool:
    """Return whether a record can match without all of the words."""
    return _has_or(query.root)


def word_forms(
    hit: Hit, asked: Query, *, any_word: Spellings | None = None
) -> Mapping[str, Sequence[str]]:
    """Return the words of a query that the record does not contain as written, with its forms of them.

    Capital letters do not matter, except for exact words. A hit of `any_word` may lack a word
    altogether, which then has no forms.
    """
    if hit.query is None:
        return {}
    texts = dict(visible_texts(hit))
    leaves = [leaf for leaf in dict.fromkeys(asked.positive_leaves()) if not _occurs(leaf, texts)]
    if not leaves:
        return {}
    marked = [each.text[start:end] for each in hit.excerpts for start, end in each.passage.marks]
    forms = {
        leaf.text: _forms(leaf, marked, (any_word or {}).get(leaf.text, ()), hit)
        for leaf in leaves[:MAX_WORDS_CHECKED]
    }
    return {word: found for word, found in forms.items() if found or any_word is not None}


def _is_absent(leaf: Leaf, searched: Sequence[VisibleRecords]) -> bool:
    plans = plan_queries(Query(leaf), searched)
    if not any(
        needs_verification(Query(leaf), languages=plan.visible.connections[0].languages)
        for plan in plans
    ):
        return not Matches(plans, counted_to=0).count
    builder = HitBuilder(Query(leaf))
    matches = Matches(plans, counted_to=MAX_CANDIDATES_READ)
    candidates = matches.hits(limit=MAX_CANDIDATES_READ + 1, after=None)
    if builder.to_hits(matches.load([hit for hit in candidates if hit.is_possible])):
        return False
    return builder.complete and len(candidates) <= MAX_CANDIDATES_READ


def _has_or(node: Node) -> bool:
    if isinstance(node, Leaf | Not):
        return False
    return isinstance(node, Or) or any(map(_has_or, node.nodes))


def _occurs(leaf: Leaf, texts: Mapping[str, str]) -> bool:
    return any(
        is_written_in(leaf, text) for name, text in texts.items() if leaf.field in (None, name)
    )


def _forms(leaf: Leaf, marked: Sequence[str], spellings: Sequence[str], hit: Hit) -> list[str]:
    """Return the marked words that match the leaf or one of its other spellings."""
    leaves = [leaf, *(Leaf(spelling, leaf.position) for spelling in spellings)]
    languages = hit.record.connection.languages
    found = (
        word
        for word in dict.fromkeys(marked)
        if find_matches(word, leaves, languages=languages, around=0, work=WorkLimit())
    )
    return list(found)[:MAX_FORMS]
