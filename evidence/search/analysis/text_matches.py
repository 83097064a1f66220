"""Find where the words of a query occur in a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from evidence.search.analysis.matcher import (
    CHARS_PER_UNIT,
    PatternMatcher,
    exact_matches,
    term_filter,
)
from evidence.search.analysis.query_tree import Leaf, compile_leaf
from evidence.search.analysis.segmentation import Token
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens

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
