"""Suggest other spellings of words that no visible record has, from visible texts only."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.ranking.matches import Match, Matches
from evidence.access.ranking.prefixes import occurring_prefixes
from evidence.access.records import VisibleRecords
from evidence.search.analysis.query_tree import Leaf, Or, Query
from evidence.search.analysis.spelling import (
    bigrams,
    candidate_prefixes,
    closest_words,
    is_correctable_cjk,
    is_correctable_word,
    similar_runs,
    words_with_prefix,
)
from evidence.search.analysis.tokenizer import WorkLimit
from evidence.search.query_planner import coded_streams, plan_queries
from evidence.search.results import Spellings, SuggestionHolder, visible_texts

MAX_CORRECTED_WORDS = 4
"""Words of a query to suggest spellings for; each costs up to six queries."""
MAX_TEXTS_READ = 100
MAX_COUNTED = 10_000
"""Up to this many matches are read from the inverted index to find the newest ones."""
SPELLINGS_PER_WORD = 3
SPELLING_WORK = 400_000
"""Units of work (`analysis.work_limit`) for the suggestions of one search."""
SPELLING_WORK_PER_TEXT = 20_000


def suggest_spellings(
    query: Query, searched: Sequence[VisibleRecords], *, absent: Collection[Leaf]
) -> Spellings:
    """Return spellings for the absent words, nearest first.

    Each suggestion occurs in a granted field of a visible record, so searching for it finds a record.
    """
    leaves = [
        leaf
        for leaf in query.positive_leaves()
        if is_correctable_word(leaf) or is_correctable_cjk(leaf)
    ]
    missing = (leaf for leaf in leaves[:MAX_CORRECTED_WORDS] if leaf in absent)
    work = WorkLimit(SPELLING_WORK)
    found = {leaf.text: _suggest_for_word(leaf, searched, work) for leaf in missing}
    return {word: spellings for word, spellings in found.items() if spellings}


def _suggest_for_word(
    leaf: Leaf, searched: Sequence[VisibleRecords], work: WorkLimit
) -> tuple[str, ...]:
    if is_correctable_cjk(leaf):
        return _similar_cjk_runs(leaf, searched, work)
    for prefixes in _prefix_sets(leaf, searched):
        near = closest_words(
            leaf.text, _candidate_words(prefixes, searched, work), limit=SPELLINGS_PER_WORD
        )
        if near:
            return near
    return ()


def _prefix_sets(leaf: Leaf, searched: Sequence[VisibleRecords]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of prefixes to search for candidates; all but the first need a visible record."""
    own, edited = candidate_prefixes(leaf)
    yield own[:1]
    occurring = set(occurring_prefixes(coded_streams(searched), [*own[1:], *edited]))
    yield from ((prefix,) for prefix in own[1:] if prefix in occurring)
    if found := tuple(prefix for prefix in edited if prefix in occurring):
        yield found


def _any_prefix(prefixes: Sequence[str]) -> Query:
    return Query(Or(tuple(Leaf(prefix, 0, prefix=True) for prefix in prefixes)))


def _candidate_words(
    prefixes: tuple[str, ...], searched: Sequence[VisibleRecords], work: WorkLimit
) -> Iterator[str]:
    """Yield the words with one of these prefixes in the newest visible records that match."""
    for match in _newest_matches(_any_prefix(prefixes), searched):
        languages = match.record.connection.languages
        for _, text in visible_texts(match):
            with work.share(max_units=SPELLING_WORK_PER_TEXT) as part:
                yield from words_with_prefix(text, prefixes, languages=languages, work=part)


def _similar_cjk_runs(
    leaf: Leaf, searched: Sequence[VisibleRecords], work: WorkLimit
) -> tuple[str, ...]:
    """Return the CJK runs of the newest visible records that differ by one character, most frequent
    first."""
    counts: Counter[str] = Counter()
    for match in _newest_matches(Query(Or(bigrams(leaf))), searched):
        for _, text in visible_texts(match):
            with work.share(max_units=SPELLING_WORK_PER_TEXT) as part:
                counts.update(similar_runs(text, leaf.text, work=part))
    order = sorted(counts, key=lambda run: (-counts[run], run))
    return tuple(order[:SPELLINGS_PER_WORD])


def suggestion_holders(
    spellings: Spellings, searched: Sequence[VisibleRecords]
) -> Mapping[str, Sequence[SuggestionHolder]]:
    """Return the visible records that each suggested word discloses.

    That is its newest holder, or all holders if there are fewer than ``SMALL_GROUP``. Up to three
    queries per word.
    """
    words = dict.fromkeys(word for suggestions in spellings.values() for word in suggestions)
    return {word: holders for word in words if (holders := _records_with_word(word, searched))}


def _records_with_word(word: str, searched: Sequence[VisibleRecords]) -> Sequence[SuggestionHolder]:
    for limit in (2 * SMALL_GROUP, MAX_TEXTS_READ):
        found = _newest_matches(Query(Leaf(word, 0)), searched, limit=limit)
        holders = [
            SuggestionHolder(
                match.record.connection.connection_id, match.visible.stream.name, key, fields
            )
            for match in found
            for key, fields in [(match.record.record_key, _fields_with(word, match))]
            if fields
        ]
        if len(holders) >= SMALL_GROUP:
            return holders[:1]
        if len(found) < limit:
            break
    return holders


def _fields_with(word: str, match: Match) -> frozenset[str]:
    return frozenset(name for name, text in visible_texts(match) if word in text.lower())


def _newest_matches(
    query: Query, searched: Sequence[VisibleRecords], *, limit: int = MAX_TEXTS_READ
) -> Sequence[Match]:
    """Return the newest visible records that match."""
    plans = plan_queries(query, searched, scored=False)
    return Matches(plans, counted_to=MAX_COUNTED, newest=True).page(limit=limit)
