"""Matching: where the leaves of a query occur in a text, and whether a text satisfies a query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evidence.search.analysis.query_tree import (
    And,
    Leaf,
    Node,
    Not,
    Or,
    Pattern,
    Query,
    Step,
    Terms,
    pattern,
)
from evidence.search.analysis.tokenizer import occurrences
from evidence.search.analysis.tokens import Token, Wanted
from evidence.search.analysis.work_limit import WorkLimit


def phrase_matches(text: str, query: Query, *, languages: tuple[str, ...], field: str = "") -> bool:
    """Whether one text satisfies the query, phrases in order; `field` is the name it goes by."""
    return verify({field: text}, query, languages=languages)


def needs_verification(query: Query, *, languages: tuple[str, ...]) -> bool:
    """Whether the index returns more than matches: phrases have an order that lexemes do not keep."""
    excluded = any(not pattern(leaf, languages=languages).atomic for leaf in query.excluded())
    return excluded or any(_ordered(leaf, languages=languages) for leaf in query.wanted())


def verify(
    texts: Mapping[str, str],
    query: Query,
    *,
    languages: tuple[str, ...],
    work: WorkLimit | None = None,
) -> bool:
    """Whether a record with these texts by field name satisfies the query.

    As in the index, the words of a query may be in different fields; a phrase must be in one. False
    where `work` is exhausted before the answer is certain.
    """
    work = work or WorkLimit()
    seen = {leaf: _Seen(leaf, languages=languages) for leaf in query.wanted()}
    for leaf in query.excluded():
        # "-e-mail" must not exclude a text in which "e" and "mail" are far apart.
        seen[leaf] = _Seen(replace(leaf, phrase=True), languages=languages)
    for name, text in texts.items():
        here = [each for leaf, each in seen.items() if leaf.field in (None, name)]
        wanted = wanted_by([each.asked for each in here])
        for each in here:
            each.start_text()
        found = occurrences(text, languages=languages, wanted=wanted, work=work)
        for token in found if here else ():
            work.spend(len(here))
            for each in here:
                each.feed(token)
            if work.exhausted or all(each.settled for each in here):
                break
        if work.exhausted:
            return False
    return _satisfied(query.root, seen)


def wanted_by(patterns: Sequence[Pattern]) -> Wanted:
    """Every term that a step of the patterns could take."""
    asked = [step.terms for each in patterns for step in each.steps]
    return Wanted(
        frozenset(term for terms in asked if not terms.prefix for term in terms.terms),
        tuple({term for terms in asked if terms.prefix for term in terms.terms}),
    )


class Walker:
    """Follows the steps of a pattern through the tokens of one text, which come in order."""

    def __init__(self, asked: Pattern) -> None:
        self._asked = asked
        self._exact: dict[str, list[Step]] = defaultdict(list)
        self._prefix: list[Step] = []
        for step in asked.steps:
            if step.terms.prefix:
                self._prefix.append(step)
            for term in () if step.terms.prefix else step.terms.terms:
                self._exact[term].append(step)
        self.most_steps = max(map(len, self._exact.values()), default=0) + len(self._prefix)
        """How many steps one token can take: a query may repeat one word a thousand times."""
        # Where a partial match stands: text position -> pattern position -> where it began.
        self._standing: dict[int, dict[int, int]] = {}

    def feed(self, token: Token) -> Iterator[tuple[int, int]]:
        """The matches that `token` completes, as start and end in the text."""
        standing = self._standing.get(token.position, {})
        for step in self.steps(token):
            began = token.start if step.source == 0 else standing.get(step.source)
            if began is None:
                continue
            if step.target == self._asked.end:
                yield began, token.end
                continue
            following = token.position + (
                step.target - step.source if step.overlapping else token.width
            )
            self._standing.setdefault(following, {}).setdefault(step.target, began)
        self._forget(token.position)

    def steps(self, token: Token) -> Sequence[Step]:
        """The steps that `token` could take."""
        exact = {step: None for term in token.terms for step in self._exact.get(term, ())}
        begun = (s for s in self._prefix if any(t.startswith(s.terms.terms) for t in token.terms))
        return [*exact, *begun]

    def _forget(self, position: int) -> None:
        for passed in [at for at in self._standing if at < position]:
            del self._standing[passed]


class _Seen:
    """What was seen of one leaf in the texts of a record."""

    def __init__(self, leaf: Leaf, *, languages: tuple[str, ...]) -> None:
        self.asked = pattern(leaf, languages=languages)
        self._ordered = _ordered(leaf, languages=languages)
        self.settled = False
        self._met: set[Terms] = set()
        self.start_text()

    def start_text(self) -> None:
        """A match does not run from one text into the next."""
        self._walker = Walker(self.asked)

    def feed(self, token: Token) -> None:
        """Take note of one token."""
        if self.settled:
            return
        if self._ordered:
            self.settled = any(True for _ in self._walker.feed(token))
        else:
            self._met.update(step.terms for step in self._walker.steps(token))
            self.settled = self._all_met()

    def _all_met(self) -> bool:
        return all(
            any(self._met.issuperset(alternative) for alternative in group.alternatives)
            for group in self.asked.groups
        )


def _ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    return leaf.phrase and not pattern(leaf, languages=languages).atomic


def _satisfied(node: Node, seen: Mapping[Leaf, _Seen]) -> bool:
    match node:
        case Leaf():
            return seen[node].settled
        case Not():
            return not _satisfied(node.node, seen)
        case And():
            return all(_satisfied(child, seen) for child in node.nodes)
        case Or():
            return any(_satisfied(child, seen) for child in node.nodes)


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
