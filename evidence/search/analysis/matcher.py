"""Match a query against a text: whether it satisfies the query, and where."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import regex

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
        in_field = [pair for pair in states.items() if pair[0].field in (None, name)]
        for leaf, state in in_field:
            if leaf.exact and not state.matched:
                work.spend(len(text) // CHARS_PER_UNIT)
                state.matched = is_written_in(leaf, text)
        active = [state for leaf, state in in_field if not leaf.exact]
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
    return is_satisfied(query.root, {leaf: state.matched for leaf, state in states.items()})


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


class _LeafState:
    """Tracks whether one leaf has matched in the texts of a record."""

    def __init__(self, leaf: Leaf, *, languages: tuple[str, ...]) -> None:
        self.pattern = compile_leaf(leaf, languages=languages)
        self._is_ordered = is_ordered(leaf, languages=languages)
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


def is_ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    """Return whether the words of a leaf must follow one another."""
    return leaf.phrase and not compile_leaf(leaf, languages=languages).atomic


def is_satisfied(node: Node, matched: Mapping[Leaf, bool]) -> bool:
    """Return whether a node is satisfied, given which leaves matched."""
    match node:
        case Leaf():
            return matched[node]
        case Not():
            return not is_satisfied(node.node, matched)
        case And():
            return all(is_satisfied(child, matched) for child in node.nodes)
        case Or():
            return any(is_satisfied(child, matched) for child in node.nodes)
