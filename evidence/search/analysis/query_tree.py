"""What a query is once it has been read: a tree of leaves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from evidence.search.analysis.tokenizer import tokens
from evidence.search.analysis.tokens import Token

ErrorCode = Literal[
    "empty_query",
    "only_negative",
    "query_too_long",
    "too_many_terms",
    "too_deep",
    "prefix_too_short",
]


class QueryError(Exception):
    """The query cannot be answered; `position` is the character that says why."""

    def __init__(self, code: ErrorCode, *, message: str, position: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word or phrase as written. `field` restricts it; `position` is where it stands in the query."""

    text: str
    position: int
    field: str | None = None
    phrase: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """What must not match."""

    node: Node
    position: int


@dataclass(frozen=True, slots=True)
class And:
    """All of these; at least one of them is no `Not`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of these, none of which is a `Not`."""

    nodes: tuple[Node, ...]


Node: TypeAlias = Leaf | Not | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """A query that can be answered: its tree has something that must match."""

    root: Node

    def wanted(self) -> Iterator[Leaf]:
        """The leaves that may make a record match, in the order of the query."""
        return _leaves(self.root, negated=False)

    def excluded(self) -> Iterator[Leaf]:
        """The leaves that keep a record from matching."""
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


# With more parts than this only the whole name is asked for: nobody recalls ten parts of a URL.
_PARTS_IN_QUERY = 8
_SHORTEST_PREFIX_PART = 2
_CACHED_PATTERNS = 1_024
_POSITION = attrgetter("position")


class Terms(NamedTuple):
    """Any of these terms; with `prefix`, any term that starts with one of them."""

    terms: tuple[str, ...]
    prefix: bool = False


class Group(NamedTuple):
    """One word of the query: any of the alternatives, each of which is all of its terms."""

    alternatives: tuple[tuple[Terms, ...], ...]
    dense: bool = False


class Step(NamedTuple):
    """From one position of the pattern to another. `overlapping`: dense pairs advance by one."""

    source: int
    target: int
    terms: Terms
    overlapping: bool = False


class Pattern(NamedTuple):
    """A leaf in terms; `end` is the position at which it is complete."""

    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    end: int

    @property
    def atomic(self) -> bool:
        """Whether having one term is all there is to it, so that the index alone can tell."""
        alternatives = [each for group in self.groups for each in group.alternatives]
        return len(alternatives) == 1 and len(alternatives[0]) == 1

    @property
    def words(self) -> int:
        """Its size, with two characters of a script without spaces as one word."""
        return sum(
            (len(group.alternatives[0]) + 2) // 2 if group.dense else 1 for group in self.groups
        )


def pattern(leaf: Leaf, *, languages: tuple[str, ...]) -> Pattern:
    """The pattern of a leaf; one without groups when the leaf has nothing to look for."""
    return _pattern(leaf.text, leaf.prefix, languages)


@lru_cache(maxsize=_CACHED_PATTERNS)
def _pattern(text: str, prefix: bool, languages: tuple[str, ...]) -> Pattern:  # noqa: FBT001
    found = list(tokens(text, languages=languages))
    end = max((token.position + token.width for token in found), default=0)
    groups: list[Group] = []
    steps: list[Step] = []
    at = 0
    while at < end:
        reach, group, taken = _group(found, at=at, prefix_end=end if prefix else -1)
        groups.append(group)
        steps.extend(taken)
        at = reach
    return Pattern(tuple(groups), tuple(steps), end)


def _group(found: list[Token], *, at: int, prefix_end: int) -> tuple[int, Group, list[Step]]:
    """The group that starts at position `at`, where it ends, and its steps."""
    first = bisect_left(found, at, key=_POSITION)
    here = found[first : bisect_left(found, at + 1, lo=first, key=_POSITION)]
    if here[0].kind in ("single", "pair"):
        return _dense_group(found, at=at, first=first)
    reach = max(token.position + token.width for token in here)
    covered = found[first : bisect_left(found, reach, lo=first, key=_POSITION)]
    return reach, *_named_group(covered, prefix_end=prefix_end)


def _named_group(covered: list[Token], *, prefix_end: int) -> tuple[Group, list[Step]]:
    """A word, or a name with its parts: the widest token comes first."""
    whole, rest = covered[0], covered[1:]
    asked = {token: _terms(token, prefix_end=prefix_end) for token in covered}
    if whole.kind == "exact":
        rest = []
    alternatives: list[tuple[Terms, ...]] = [(asked[whole],)]
    parts = [asked[token] for token in rest if token.kind == "word"]
    if 0 < len(parts) <= _PARTS_IN_QUERY:
        alternatives.append(tuple(_long_enough(parts)))
    steps = [
        Step(token.position, token.position + token.width, asked[token]) for token in (whole, *rest)
    ]
    return Group(tuple(alternatives)), steps


def _long_enough(parts: list[Terms]) -> Iterator[Terms]:
    """A part of one letter is no prefix to look for: the other parts have to do."""
    for part in parts:
        short = part.prefix and len(part.terms[0]) < _SHORTEST_PREFIX_PART
        if not short or len(parts) == 1:
            yield part


def _dense_group(found: list[Token], *, at: int, first: int) -> tuple[int, Group, list[Step]]:
    """A run of characters from `found[first]`: its overlapping pairs, or the one character it is."""
    pairs: list[Token] = []
    for token in islice(found, first, None):
        if token.position > at + len(pairs):
            break
        if token.kind == "pair" and token.position == at + len(pairs):
            pairs.append(token)
    if not pairs:
        single = found[first]
        terms = Terms(single.terms)
        return at + 1, Group(((terms,),), dense=True), [Step(at, at + 1, terms)]
    steps = [_pair_step(pair) for pair in pairs]
    steps[-1] = steps[-1]._replace(target=steps[-1].target + 1)
    group = Group((tuple(step.terms for step in steps),), dense=True)
    return at + len(pairs) + 1, group, steps


def _pair_step(pair: Token) -> Step:
    return Step(pair.position, pair.position + 1, Terms(pair.terms), overlapping=True)


def _terms(token: Token, *, prefix_end: int) -> Terms:
    if token.position + token.width == prefix_end:
        return Terms(token.terms[:1], prefix=True)
    return Terms(token.terms)
