"""Find where the words and phrases of a query occur in a text."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import regex

from evidence.search.analysis.query_tree import (
    Leaf,
    Pattern,
    PatternStep,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.segmentation import TermFilter, Token, is_cjk
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens

_WORD_CHARACTER = r"[\p{L}\p{N}\p{M}_]"
_EDGE_SIGNS = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{N}\p{M}]+$")
_CACHED_PATTERNS = 256
CHARS_PER_UNIT = 32
"""Characters that the search for exact words reads per unit of work."""


def exact_matches(leaf: Leaf, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a leaf as written: its accents, endings and signs.

    An exact leaf, `"=Théo"`, finds its candidates by the index and is then compared with the text.
    """
    pattern = _pattern(leaf.text, leaf.prefix, 0)
    return (match.span() for match in pattern.finditer(text))


def is_written_in(leaf: Leaf, text: str) -> bool:
    """Return whether a text contains a leaf as written; only an exact leaf compares case."""
    if leaf.exact:
        return next(exact_matches(leaf, text), None) is not None
    word = _EDGE_SIGNS.sub("", leaf.text) or leaf.text
    return _pattern(word, leaf.prefix, regex.IGNORECASE).search(text) is not None


@lru_cache(maxsize=_CACHED_PATTERNS)
def _pattern(written: str, prefix: bool, flags: int) -> regex.Pattern[str]:  # noqa: FBT001
    """Return a pattern for whole words. Scripts without spaces have no word boundaries."""
    words = written.split()
    forms = dict.fromkeys(
        r"\s+".join(regex.escape(unicodedata.normalize(form, word)) for word in words)
        for form in ("NFC", "NFD")
    )
    before = "" if is_cjk(written) else f"(?<!{_WORD_CHARACTER})"
    after = "" if prefix or is_cjk(written[-1:]) else f"(?!{_WORD_CHARACTER})"
    return regex.compile(f"{before}(?:{'|'.join(forms)}){after}", flags)


def needs_verification(query: Query, *, languages: tuple[str, ...]) -> bool:
    """Return whether index results need a check of the text: lexemes do not store word order."""
    excluded = any(
        leaf.exact or not compile_leaf(leaf, languages=languages).atomic
        for leaf in query.negative_leaves()
    )
    return excluded or any(
        leaf.exact or is_ordered(leaf, languages=languages) for leaf in query.positive_leaves()
    )


def term_filter(patterns: Sequence[Pattern]) -> TermFilter:
    """Return a filter that accepts every term that a step of the patterns can take."""
    return merge_filters(step.terms for pattern in patterns for step in pattern.steps)


def merge_filters(term_sets: Iterable[TermSet]) -> TermFilter:
    """Return a filter that accepts every term of the term sets."""
    term_sets = list(term_sets)
    return TermFilter(
        frozenset(term for terms in term_sets if not terms.prefix for term in terms.terms),
        tuple({term for terms in term_sets if terms.prefix for term in terms.terms}),
    )


class PatternMatcher:
    """Matches a pattern against the tokens of one text, given in order."""

    def __init__(self, pattern: Pattern) -> None:
        self._end = pattern.end
        self._exact: dict[str, list[PatternStep]] = defaultdict(list)
        self._prefix: list[PatternStep] = []
        for step in pattern.steps:
            if step.terms.prefix:
                self._prefix.append(step)
            for term in () if step.terms.prefix else step.terms.terms:
                self._exact[term].append(step)
        self.max_steps = max(map(len, self._exact.values()), default=0) + len(self._prefix)
        """Upper bound of steps per token: a query can repeat one word a thousand times."""
        # Partial matches: text position -> pattern position -> start offset of the match.
        self._partial: dict[int, dict[int, int]] = {}

    def feed(self, token: Token) -> Iterator[tuple[int, int]]:
        """Yield start and end of the matches that `token` completes."""
        partial = self._partial.get(token.position, {})
        for step in self.steps(token):
            start = token.start if step.source == 0 else partial.get(step.source)
            if start is None:
                continue
            if step.target == self._end:
                yield start, token.end
                continue
            following = token.position + (
                step.target - step.source if step.overlapping else token.width
            )
            self._partial.setdefault(following, {}).setdefault(step.target, start)
        for passed in [at for at in self._partial if at < token.position]:
            del self._partial[passed]

    def steps(self, token: Token) -> Sequence[PatternStep]:
        """Return the steps that `token` can take."""
        exact = {step: None for term in token.terms for step in self._exact.get(term, ())}
        by_prefix = (
            s for s in self._prefix if any(t.startswith(s.terms.terms) for t in token.terms)
        )
        return [*exact, *by_prefix]


def is_ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    """Return whether the words of a leaf must follow one another."""
    return leaf.phrase and not compile_leaf(leaf, languages=languages).atomic


# The search for a leaf ends after so many occurrences.
_MAX_OCCURRENCES = 200
# Common words are also searched around this many occurrences of each rare word.
_MAX_NEIGHBORHOODS = 20
# Characters read after a neighborhood, so that its last word is complete.
_MAX_WORD_CHARS = 256


class TextMatch(NamedTuple):
    """One occurrence, in code points of the text; `leaf` is the index of the matching leaf."""

    start: int
    end: int
    leaf: int


def find_matches(
    text: str,
    leaves: Sequence[Leaf],
    *,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> list[TextMatch]:
    """Return where the leaves occur, in order. Leaves without a full match match word by word.

    A very frequent leaf matches at its first occurrences and within `around` characters of the
    others. Text beyond the `work` limit is not searched.
    """
    searches = [
        _LeafMatches(leaf, index, languages) for index, leaf in enumerate(leaves) if not leaf.exact
    ]
    _scan(text, searches, languages=languages, work=work)
    matches = {match for search in searches for match in search.matches()}
    for index, leaf in enumerate(leaves):
        if leaf.exact:
            work.spend(len(text) // CHARS_PER_UNIT)
            spans = islice(exact_matches(leaf, text), _MAX_OCCURRENCES)
            matches |= {TextMatch(start, end, index) for start, end in spans}
    common = [search for search in searches if search.done]
    rare = [
        m for search in searches if not search.done for m in search.matches()[:_MAX_NEIGHBORHOODS]
    ]
    if common and rare:
        for match in rare:
            near = _nearby(text, common, match=match, languages=languages, around=around, work=work)
            matches.update(near)
    return sorted(matches)


def _scan(
    text: str, searches: Sequence[_LeafMatches], *, languages: tuple[str, ...], work: WorkLimit
) -> None:
    """Feed tokens to the searches until all are done, or the text or `work` ends."""
    start = 0
    while searches and not work.exhausted:
        accepted = term_filter([search.pattern for search in searches])
        tokens = find_tokens(
            text, languages=languages, term_filter=accepted, work=work, start=start
        )
        for token in tokens:
            work.spend(len(searches))
            for search in searches:
                search.feed(token)
            if any(search.done for search in searches):
                start = token.end
                break
        else:
            return
        searches = [search for search in searches if not search.done]
        for search in searches:
            search.restart()


def _nearby(
    text: str,
    searches: Sequence[_LeafMatches],
    *,
    match: TextMatch,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> Iterator[TextMatch]:
    """Yield the matches of common leaves around a match of a rare leaf."""
    if work.exhausted:
        return
    nearby = [_LeafMatches(search.leaf, search.index, languages) for search in searches]
    accepted = term_filter([search.pattern for search in nearby])
    # A slice, so that the cost does not depend on the length of the rest.
    start, end = max(0, match.start - around), match.end + around
    shift = max(0, start - 1)
    window = text[shift : end + _MAX_WORD_CHARS]
    tokens = find_tokens(
        window, languages=languages, term_filter=accepted, work=work, start=start - shift
    )
    for token in tokens:
        if token.start + shift > end or token.end == len(window) < len(text) - shift:
            break
        work.spend(len(nearby))
        for search in nearby:
            search.feed(token)
    for search in nearby:
        yield from (m._replace(start=m.start + shift, end=m.end + shift) for m in search.matches())


class _LeafMatches:
    """Collects the matches of one leaf in a text."""

    def __init__(self, leaf: Leaf, index: int, languages: tuple[str, ...]) -> None:
        self.leaf = leaf
        self.index = index
        self.pattern = compile_leaf(leaf, languages=languages)
        self._matcher = PatternMatcher(self.pattern)
        self._full: list[TextMatch] = []
        self._partial: list[TextMatch] = []

    @property
    def done(self) -> bool:
        return len(self._full) >= _MAX_OCCURRENCES

    def feed(self, token: Token) -> None:
        for start, end in self._matcher.feed(token):
            self._full.append(TextMatch(start, end, self.index))
        if len(self._partial) < _MAX_OCCURRENCES and self._matcher.steps(token):
            self._partial.append(TextMatch(token.start, token.end, self.index))

    def restart(self) -> None:
        """Discard partial matches, because token positions restart at zero."""
        self._matcher = PatternMatcher(self.pattern)

    def matches(self) -> list[TextMatch]:
        """Return the full matches or, if there are none and the leaf is no phrase, the partial ones."""
        return self._full or ([] if self.leaf.phrase else self._partial)


def is_plain(pattern: Pattern) -> bool:
    """Return whether a pattern is a sequence of single words, without compounds and CJK bigrams."""
    return bool(pattern.steps) and all(
        (step.source, step.target, step.overlapping) == (at, at + 1, False)
        for at, step in enumerate(pattern.steps)
    )
