"""Suggest other spellings of words that no visible record has, from visible texts only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.ranking.matches import Match, Matches, occurring_prefixes
from evidence.access.records import VisibleRecords
from evidence.search.analysis.query import Leaf, Or, Query
from evidence.search.analysis.segmentation import CJK_RUN, TermFilter, fold, is_cjk, strip_marks
from evidence.search.analysis.terms import SHORT_WORD_CHARS
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens
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


_MIN_WORD_CHARS = 4
_MAX_WORD_CHARS = 32
# A shorter word becomes a different word after two edits.
_MIN_CHARS_FOR_TWO_EDITS = 6
_MIN_PREFIX_CHARS = 3
# Prefix length if the first letters are wrong: long enough to match few words.
_EDITED_PREFIX_CHARS = 6
_MIN_RUN_CHARS = 3
_MAX_RUN_CHARS = 16
# Character comparisons per unit of work.
_CHARS_PER_UNIT = 32
# Folded letters: without case and accents.
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u043a\u043b\u043c\u043d\u043e\u043f"
    "\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f",
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf\u03c0"
    "\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9",
)


def is_correctable_word(leaf: Leaf) -> bool:
    """Return whether a leaf is one word of letters in a script with spaces."""
    form = _form(leaf.text)
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    return (
        plain
        and _MIN_WORD_CHARS <= len(form) <= _MAX_WORD_CHARS
        and form.isalpha()
        and not is_cjk(form)
    )


def candidate_prefixes(leaf: Leaf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes to search for candidates: of the word, longest first, and of its edits.

    The latter are one edit away from the first letters.
    """
    form = _form(leaf.text)
    lengths = (len(form) - 3, len(form) // 2, _MIN_PREFIX_CHARS)
    own = dict.fromkeys(form[: max(_MIN_PREFIX_CHARS, length)] for length in lengths)
    return tuple(own), tuple(_edited_prefixes(form))


def words_with_prefix(
    text: str, prefixes: tuple[str, ...], *, languages: tuple[str, ...], work: WorkLimit
) -> Iterator[str]:
    """Yield the words of a text with one of these prefixes, in lower case and with accents."""
    term_filter = TermFilter(frozenset(), prefixes)
    for token in find_tokens(text, languages=languages, term_filter=term_filter, work=work):
        word = text[token.start : token.end].lower()
        if token.kind == "word" and word.isalpha() and _form(word).startswith(prefixes):
            yield word


def _edited_prefixes(form: str) -> Iterator[str]:
    """Yield the prefixes of a word after one edit of its first letters."""
    alphabet = next((letters for letters in _ALPHABETS if set(form) <= set(letters)), "")
    edited: dict[str, None] = {}
    for at in range(_MIN_PREFIX_CHARS):
        before, letter, after = form[:at], form[at], form[at + 1 :]
        edited |= dict.fromkeys([before + after, before + after[:1] + letter + after[1:]])
        edited |= dict.fromkeys(before + other + after for other in alphabet)
        edited |= dict.fromkeys(before + other + letter + after for other in alphabet)
    original = form[:_MIN_PREFIX_CHARS]
    prefixes = dict.fromkeys(form[:_EDITED_PREFIX_CHARS] for form in edited)
    yield from (prefix for prefix in prefixes if not prefix.startswith(original))


def closest_words(word: str, candidates: Iterable[str], *, limit: int) -> tuple[str, ...]:
    """Return the candidates within one or two edits: nearest first, then most frequent.

    No word of three letters or fewer is among them, because it is too likely to be another word.
    """
    form = _form(word)
    allowed = 1 + (len(form) >= _MIN_CHARS_FOR_TWO_EDITS)
    counts = Counter(candidates)
    distances = {other: edit_distance(form, _form(other), limit=allowed) for other in counts}
    near = [
        other
        for other in counts
        if 0 < distances[other] <= allowed and len(_form(other)) > SHORT_WORD_CHARS
    ]
    return tuple(sorted(near, key=lambda w: (distances[w], -counts[w], w))[:limit])


def edit_distance(one: str, other: str, *, limit: int) -> int:
    """Return the Damerau-Levenshtein distance (optimal string alignment), at most `limit` + 1."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        above, row = row, [at]
        for column, target in enumerate(other, 1):
            cost = min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != target))
            swapped = (
                column > 1 and at > 1 and letter == other[column - 2] and one[at - 2] == target
            )
            row.append(min(cost, before[column - 2] + 1) if swapped else cost)
        before = above
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def is_correctable_cjk(leaf: Leaf) -> bool:
    """Return whether a leaf is one CJK run, in which one character can be corrected."""
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    is_run = CJK_RUN.fullmatch(leaf.text) is not None
    return plain and is_run and _MIN_RUN_CHARS <= len(leaf.text) <= _MAX_RUN_CHARS


def bigrams(leaf: Leaf) -> tuple[Leaf, ...]:
    """Return the bigrams of a run; a text with a similar run contains some of them."""
    text = leaf.text
    return tuple(Leaf(text[at : at + 2], leaf.position + at) for at in range(len(text) - 1))


def similar_runs(text: str, run: str, *, work: WorkLimit) -> Iterator[str]:
    """Yield the runs of a text that differ from `run` by one replaced character."""
    end = work.left * _CHARS_PER_UNIT // len(run)
    work.spend(1 + min(len(text), end) * len(run) // _CHARS_PER_UNIT)
    for match in _one_replaced(run).finditer(text, 0, end):
        similar: str = match.group(1)
        if similar != run and CJK_RUN.fullmatch(similar):
            yield similar


@lru_cache(maxsize=16)
def _one_replaced(run: str) -> re.Pattern[str]:
    patterns = (re.escape(run[:at]) + "." + re.escape(run[at + 1 :]) for at in range(len(run)))
    return re.compile(f"(?=({'|'.join(patterns)}))")


def _form(word: str) -> str:
    return strip_marks(fold(word))
