"""The parsed query: a tree of phrases, prefixes, OR and exclusions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from evidence.search.analysis.segmentation import Token
from evidence.search.analysis.tokenizer import tokenize

ErrorCode = Literal[
    "empty_query",
    "only_negative",
    "query_too_long",
    "too_many_terms",
    "too_deep",
    "prefix_too_short",
]


class QueryError(Exception):
    """Raised for a query that cannot be answered; `position` is the offending character."""

    def __init__(self, code: ErrorCode, *, message: str, position: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word or phrase as written, perhaps in one field only; `position` is its query offset.

    An `exact` leaf matches only as written, without stems, folding and other spellings. `weight`
    multiplies its score.
    """

    text: str
    position: int
    field: str | None = None
    phrase: bool = False
    prefix: bool = False
    exact: bool = False
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Not:
    """Excludes records that match `node`."""

    node: Node
    position: int


@dataclass(frozen=True, slots=True)
class And:
    """Requires all of the nodes; at least one of them is not a `Not`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Requires any of the nodes; none of them is a `Not`."""

    nodes: tuple[Node, ...]


Node: TypeAlias = Leaf | Not | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """A valid query, with at least one leaf that must match."""

    root: Node

    def positive_leaves(self) -> Iterator[Leaf]:
        """Yield the leaves that can make a record match, in query order."""
        return _leaves(self.root, negated=False)

    def negative_leaves(self) -> Iterator[Leaf]:
        """Yield the leaves that exclude a record."""
        return _leaves(self.root, negated=True)


def _leaves(node: Node, *, negated: bool) -> Iterator[Leaf]:
    match node:
        case Leaf():
            if not negated:
                yield node
        case Not():
            yield from _leaves(node.node, negated=not negated)
        case And() | Or():
            for child in node.nodes:
                yield from _leaves(child, negated=negated)


# A compound with more parts matches only as a whole: nobody recalls ten parts of a URL.
_MAX_COMPOUND_PARTS = 8
_MIN_PREFIX_PART_CHARS = 2
_CACHED_PATTERNS = 1_024
_POSITION = attrgetter("position")


class TermSet(NamedTuple):
    """Matches any of the terms or, with `prefix`, any term that starts with one of them."""

    terms: tuple[str, ...]
    prefix: bool = False

    def accepts(self, terms: Sequence[str]) -> bool:
        """Return whether a token with these terms matches."""
        if self.prefix:
            return any(term.startswith(self.terms) for term in terms)
        return not set(self.terms).isdisjoint(terms)


class PatternGroup(NamedTuple):
    """One word of the query. Any alternative matches; an alternative needs all of its terms."""

    alternatives: tuple[tuple[TermSet, ...], ...]
    cjk: bool = False


class PatternStep(NamedTuple):
    """Leads between two positions of a pattern. `overlapping`: CJK bigrams advance by one."""

    source: int
    target: int
    terms: TermSet
    overlapping: bool = False


class Pattern(NamedTuple):
    """A leaf compiled to terms; a match is complete at position `end`."""

    groups: tuple[PatternGroup, ...]
    steps: tuple[PatternStep, ...]
    end: int

    @property
    def atomic(self) -> bool:
        """Whether a unigram term decides, so that the index needs no check of the text."""
        alternatives = [terms for group in self.groups for terms in group.alternatives]
        return len(alternatives) == 1 and len(alternatives[0]) == 1

    @property
    def words(self) -> int:
        """The size in words; two CJK characters count as one word."""
        return sum(
            (len(group.alternatives[0]) + 2) // 2 if group.cjk else 1 for group in self.groups
        )


def compile_leaf(leaf: Leaf, *, languages: tuple[str, ...]) -> Pattern:
    """Return the pattern of a leaf, without groups if the leaf contains no term."""
    return _compile_text(leaf.text, leaf.prefix, () if leaf.exact else languages)


@lru_cache(maxsize=_CACHED_PATTERNS)
def _compile_text(text: str, prefix: bool, languages: tuple[str, ...]) -> Pattern:  # noqa: FBT001
    all_tokens = list(tokenize(text, languages=languages))
    end = max((token.position + token.width for token in all_tokens), default=0)
    groups: list[PatternGroup] = []
    steps: list[PatternStep] = []
    at = 0
    while at < end:
        group_end, group, group_steps = _group(all_tokens, at=at, prefix_end=end if prefix else -1)
        groups.append(group)
        steps.extend(group_steps)
        at = group_end
    return Pattern(tuple(groups), tuple(steps), end)


def _group(
    all_tokens: list[Token], *, at: int, prefix_end: int
) -> tuple[int, PatternGroup, list[PatternStep]]:
    """Return where the group that starts at `at` ends, the group, and its steps."""
    first = bisect_left(all_tokens, at, key=_POSITION)
    tokens_here = all_tokens[first : bisect_left(all_tokens, at + 1, lo=first, key=_POSITION)]
    if tokens_here[0].kind in ("unigram", "bigram"):
        return _cjk_group(all_tokens, at=at, first=first)
    group_end = max(token.position + token.width for token in tokens_here)
    covered = all_tokens[first : bisect_left(all_tokens, group_end, lo=first, key=_POSITION)]
    return group_end, *_compound_group(covered, prefix_end=prefix_end)


def _compound_group(
    covered: list[Token], *, prefix_end: int
) -> tuple[PatternGroup, list[PatternStep]]:
    """Build the group of a word or compound; the widest token comes first."""
    whole, rest = covered[0], covered[1:]
    term_sets = {token: _terms(token, prefix_end=prefix_end) for token in covered}
    if whole.kind == "exact":
        rest = []
    alternatives: list[tuple[TermSet, ...]] = [(term_sets[whole],)]
    parts = [term_sets[token] for token in rest if token.kind == "word"]
    if 0 < len(parts) <= _MAX_COMPOUND_PARTS:
        alternatives.append(tuple(_long_enough(parts)))
    steps = [
        PatternStep(token.position, token.position + token.width, term_sets[token])
        for token in (whole, *rest)
    ]
    return PatternGroup(tuple(alternatives)), steps


def _long_enough(parts: list[TermSet]) -> Iterator[TermSet]:
    """Drop prefixes of one letter, unless there is no other part."""
    for part in parts:
        short = part.prefix and len(part.terms[0]) < _MIN_PREFIX_PART_CHARS
        if not short or len(parts) == 1:
            yield part


def _cjk_group(
    all_tokens: list[Token], *, at: int, first: int
) -> tuple[int, PatternGroup, list[PatternStep]]:
    """Build the group of a CJK run from its bigrams, or from its only character."""
    bigrams: list[Token] = []
    for token in islice(all_tokens, first, None):
        if token.position > at + len(bigrams):
            break
        if token.kind == "bigram" and token.position == at + len(bigrams):
            bigrams.append(token)
    if not bigrams:
        unigram = all_tokens[first]
        terms = TermSet(unigram.terms)
        return at + 1, PatternGroup(((terms,),), cjk=True), [PatternStep(at, at + 1, terms)]
    steps = [_bigram_step(bigram) for bigram in bigrams]
    steps[-1] = steps[-1]._replace(target=steps[-1].target + 1)
    group = PatternGroup((tuple(step.terms for step in steps),), cjk=True)
    return at + len(bigrams) + 1, group, steps


def _bigram_step(bigram: Token) -> PatternStep:
    return PatternStep(
        bigram.position, bigram.position + 1, TermSet(bigram.terms), overlapping=True
    )


def _terms(token: Token, *, prefix_end: int) -> TermSet:
    if token.position + token.width == prefix_end:
        return TermSet(token.terms[:1], prefix=True)
    return TermSet(token.terms)
