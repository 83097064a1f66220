"""Match a query against a text: whether it satisfies the query, and where."""

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
    PatternStep,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.tokenizer import find_tokens
from evidence.search.analysis.tokens import TermFilter, Token
from evidence.search.analysis.work_limit import WorkLimit


def needs_verification(query: Query, *, languages: tuple[str, ...]) -> bool:
    """Return whether index results need a check of the text: lexemes do not store word order."""
    excluded = any(
        not compile_leaf(leaf, languages=languages).atomic for leaf in query.negative_leaves()
    )
    return excluded or any(
        _is_ordered(leaf, languages=languages) for leaf in query.positive_leaves()
    )


def verify(
    texts: Mapping[str, str],
    query: Query,
    *,
    languages: tuple[str, ...],
    work: WorkLimit | None = None,
) -> bool:
    """Return whether a record satisfies the query; `texts` maps its field names to texts.

    As in the index, the words of a query may be in different fields; a phrase must be in one.
    Returns False if `work` is exhausted before the result is certain.
    """
    work = work or WorkLimit()
    states = {leaf: _LeafState(leaf, languages=languages) for leaf in query.positive_leaves()}
    for leaf in query.negative_leaves():
        # "-e-mail" must not exclude a text in which "e" and "mail" are far apart.
        states[leaf] = _LeafState(replace(leaf, phrase=True), languages=languages)
    for name, text in texts.items():
        active = [state for leaf, state in states.items() if leaf.field in (None, name)]
        accepted = term_filter([state.pattern for state in active])
        for state in active:
            state.start_text()
        tokens = find_tokens(text, languages=languages, term_filter=accepted, work=work)
        for token in tokens if active else ():
            work.spend(len(active))
            for state in active:
                state.feed(token)
            if work.exhausted or all(state.matched for state in active):
                break
        if work.exhausted:
            return False
    return _is_satisfied(query.root, states)


def term_filter(patterns: Sequence[Pattern]) -> TermFilter:
    """Return a filter that accepts every term that a step of the patterns can take."""
    term_sets = [step.terms for pattern in patterns for step in pattern.steps]
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


class _LeafState:
    """Tracks whether one leaf has matched in the texts of a record."""

    def __init__(self, leaf: Leaf, *, languages: tuple[str, ...]) -> None:
        self.pattern = compile_leaf(leaf, languages=languages)
        self._is_ordered = _is_ordered(leaf, languages=languages)
        self.matched = False
        self._seen: set[TermSet] = set()
        self.start_text()

    def start_text(self) -> None:
        """Discard partial matches, which must not continue in the next text."""
        self._matcher = PatternMatcher(self.pattern)

    def feed(self, token: Token) -> None:
        """Process one token."""
        if self.matched:
            return
        if self._is_ordered:
            self.matched = any(True for _ in self._matcher.feed(token))
            return
        self._seen.update(step.terms for step in self._matcher.steps(token))
        self.matched = all(
            any(self._seen.issuperset(alternative) for alternative in group.alternatives)
            for group in self.pattern.groups
        )


def _is_ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    return leaf.phrase and not compile_leaf(leaf, languages=languages).atomic


def _is_satisfied(node: Node, states: Mapping[Leaf, _LeafState]) -> bool:
    match node:
        case Leaf():
            return states[node].matched
        case Not():
            return not _is_satisfied(node.node, states)
        case And():
            return all(_is_satisfied(child, states) for child in node.nodes)
        case Or():
            return any(_is_satisfied(child, states) for child in node.nodes)


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
    searches = [_LeafMatches(leaf, index, languages) for index, leaf in enumerate(leaves)]
    _scan(text, searches, languages=languages, work=work)
    matches = {match for search in searches for match in search.matches()}
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
