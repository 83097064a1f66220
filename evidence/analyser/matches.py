"""Matches: where the words of a query stand in one text, with bounded work on huge ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evidence.analyser.analysed import Token
from evidence.analyser.matching import Walker, wanted_by
from evidence.analyser.patterns import pattern
from evidence.analyser.queries import Leaf
from evidence.analyser.tokens import occurrences
from evidence.analyser.work import WorkLimit

# A word that occurs more often than this has shown where it is.
_OCCURRENCES = 200
# Next to so many occurrences of each rare word, common ones are looked for as well.
_NEIGHBOURHOODS = 20
# How much of the text behind a neighbourhood is read, so that its last word is whole.
_WORD_CHARS = 256


class Match(NamedTuple):
    """One occurrence, in code points of the text; `leaf` is the place of what occurs among the asked."""

    start: int
    end: int
    leaf: int


def matches_of(
    text: str,
    leaves: Sequence[Leaf],
    *,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> list[Match]:
    """Where the leaves occur, in order: in full or, where never in full, word by word.

    Of a leaf that is everywhere, what stands near the others is found, and its first occurrences.
    What lies beyond the `work` limit is not looked at.
    """
    searches = [_Search(leaf, place, languages) for place, leaf in enumerate(leaves)]
    _scan(text, searches, languages=languages, work=work)
    matches = {match for search in searches for match in search.matches()}
    common = [search for search in searches if search.done]
    rare = [m for search in searches if not search.done for m in search.matches()[:_NEIGHBOURHOODS]]
    if common and rare:
        for match in rare:
            near = _nearby(text, common, match=match, languages=languages, around=around, work=work)
            matches.update(near)
    return sorted(matches)


def _scan(
    text: str, searches: Sequence[_Search], *, languages: tuple[str, ...], work: WorkLimit
) -> None:
    """Go through the text until every leaf was met often enough, or the text or `work` ends."""
    start = 0
    while searches and not work.exhausted:
        wanted = wanted_by([search.asked for search in searches])
        found = occurrences(text, languages=languages, wanted=wanted, work=work, start=start)
        for token in found:
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
            search.start_again()


def _nearby(
    text: str,
    searches: Sequence[_Search],
    *,
    match: Match,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> Iterator[Match]:
    """The matches of common leaves around one of a rare leaf."""
    if work.exhausted:
        return
    anew = [_Search(search.leaf, search.place, languages) for search in searches]
    wanted = wanted_by([search.asked for search in anew])
    # A slice, not the text: what is done here must not grow with how much follows.
    start, end = max(0, match.start - around), match.end + around
    shift = max(0, start - 1)
    near = text[shift : end + _WORD_CHARS]
    found = occurrences(near, languages=languages, wanted=wanted, work=work, start=start - shift)
    for token in found:
        if token.start + shift > end or token.end == len(near) < len(text) - shift:
            break
        work.spend(len(anew))
        for search in anew:
            search.feed(token)
    for search in anew:
        yield from (m._replace(start=m.start + shift, end=m.end + shift) for m in search.matches())


class _Search:
    """One leaf on its way through a text."""

    def __init__(self, leaf: Leaf, place: int, languages: tuple[str, ...]) -> None:
        self.leaf = leaf
        self.place = place
        self.asked = pattern(leaf, languages=languages)
        self._walker = Walker(self.asked)
        self._full: list[Match] = []
        self._partial: list[Match] = []

    @property
    def done(self) -> bool:
        return len(self._full) >= _OCCURRENCES

    def feed(self, token: Token) -> None:
        for start, end in self._walker.feed(token):
            self._full.append(Match(start, end, self.place))
        if len(self._partial) < _OCCURRENCES and self._walker.steps(token):
            self._partial.append(Match(token.start, token.end, self.place))

    def start_again(self) -> None:
        """Positions count anew from here."""
        self._walker = Walker(self.asked)

    def matches(self) -> list[Match]:
        """In full or, for a word, in part."""
        return self._full or ([] if self.leaf.phrase else self._partial)
