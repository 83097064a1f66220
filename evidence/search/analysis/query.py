"""The query: a tree of phrases, prefixes, OR and exclusions, and its syntax.

The syntax is words, "phrases", "=exact words", prefix*, OR, -not, field:word and ().

OR binds looser than adjacency: `lease paris OR rent lyon` matches either pair. `AND` and `NOT` in
capitals also work. Invalid syntax is plain text: an unpaired quote or parenthesis, an operator
without operands, an unknown field name. Only a query that cannot have results is an error.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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


MAX_NESTING = 16

ItemKind = Literal["leaf", "or", "and", "not", "open", "close"]

_OPERATORS: dict[str, ItemKind] = {"OR": "or", "|": "or", "AND": "and", "NOT": "not"}
_QUOTES = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02'
_QUOTE = re.compile(f"[{_QUOTES}]")
_FIELD = re.compile(rf"([^\s:(){_QUOTES}]+):(?=\S)")
_MINUS = re.compile(r"(?<![^\s(])-(?=[^\s-])")
_WORD = re.compile(rf"[^\s(){_QUOTES}]+")


@dataclass(frozen=True, slots=True)
class QueryItem:
    """An item of the query. The `leaf` of an operator applies if the operator is idle."""

    kind: ItemKind
    position: int
    leaf: Leaf | None = None
    field: str | None = None


def lex_query(q: str, *, fields: Collection[str], exact: bool = False) -> list[QueryItem]:
    """Return the items of a query; unpaired parentheses and idle operators become text or go."""
    items = list(_scan(q, fields=fields))
    if exact:
        items = [
            replace(item, leaf=replace(item.leaf, phrase=True, exact=True)) if item.leaf else item
            for item in items
        ]
    return _drop_idle_operators(_drop_unpaired_parentheses(items))


def _scan(q: str, *, fields: Collection[str]) -> Iterator[QueryItem]:
    at = 0
    while at < len(q):
        start = at
        if minus := _MINUS.match(q, at):
            yield QueryItem("not", at)
            at = minus.end()
        field = _FIELD.match(q, at)
        name = field[1] if field and field[1] in fields else None
        if field and name:
            at = field.end()
        item, at = _operand(q, at=at, field=name)
        if item is not None:
            yield item
        at = max(at, start + 1)


def _operand(q: str, *, at: int, field: str | None) -> tuple[QueryItem | None, int]:
    """Return the leaf, operator or parenthesis at `at`, if any, and the next position."""
    if at < len(q) and q[at] in "()":
        return QueryItem("open" if q[at] == "(" else "close", at, field=field), at + 1
    if at < len(q) and q[at] in _QUOTES:
        closing = _QUOTE.search(q, at + 1)
        if closing is None:
            return None, at + 1
        start = at + 1
        exact = q.startswith("=", start)
        text = q[start + exact : closing.start()]
        phrase = Leaf(text, start + exact, field=field, phrase=True, exact=exact)
        return _leaf_item(phrase), closing.end()
    word = _WORD.match(q, at)
    if word is None:
        return None, at + 1
    raw = word.group()
    if field is None and raw in _OPERATORS:
        return QueryItem(_OPERATORS[raw], at, leaf=Leaf(raw, at)), word.end()
    text = raw.rstrip("*")
    return _leaf_item(Leaf(text, at, field=field, prefix=raw != text)), word.end()


def _leaf_item(leaf: Leaf) -> QueryItem | None:
    """Return the item of a leaf, or None if the leaf is only punctuation."""
    return (
        QueryItem("leaf", leaf.position, leaf=leaf)
        if compile_leaf(leaf, languages=()).groups
        else None
    )


def _drop_unpaired_parentheses(items: list[QueryItem]) -> list[QueryItem]:
    opened: list[int] = []
    paired: set[int] = set()
    for index, item in enumerate(items):
        if item.kind == "open":
            opened.append(index)
            if len(opened) > MAX_NESTING:
                message = f"Nest parentheses at most {MAX_NESTING} deep."
                raise QueryError("too_deep", message=message, position=item.position)
        elif item.kind == "close" and opened:
            paired |= {opened.pop(), index}
    return [
        item
        for index, item in enumerate(items)
        if item.kind not in ("open", "close") or index in paired
    ]


def _drop_idle_operators(items: list[QueryItem]) -> list[QueryItem]:
    """Turn operators that lack an operand into words, or drop them."""
    result: list[QueryItem] = []
    for index, item in enumerate(items):
        following = items[index + 1].kind if index + 1 < len(items) else None
        before = bool(result) and result[-1].kind in ("leaf", "close")
        after = following in ("leaf", "not", "open")
        idle = {"not": not after, "or": not (before and after), "and": not (before and after)}
        if not idle.get(item.kind, False):
            result.append(item)
        elif item.leaf and (text := _leaf_item(item.leaf)):
            result.append(text)
    return result


MAX_QUERY_CHARS = 1_000
MAX_QUERY_TERMS = 32
MIN_PREFIX_CHARS = 2


def parse(q: str, *, fields: Collection[str] = frozenset(), exact: bool = False) -> Query:
    """Parse a query. `fields` are the valid names before a colon; `exact` makes every leaf exact.

    Raises `QueryError`, and no other exception for any text.
    """
    if len(q) > MAX_QUERY_CHARS:
        message = f"The query is longer than {MAX_QUERY_CHARS:,} characters; shorten it."
        raise QueryError("query_too_long", message=message, position=MAX_QUERY_CHARS)
    items = lex_query(q, fields=fields, exact=exact)
    root = _Parser(items).alternatives(field=None)
    if root is None:
        message = "The query contains no word; add one."
        raise QueryError("empty_query", message=message, position=0)
    _require_positive_leaf(root)
    _require_size_within_limits(item.leaf for item in items if item.leaf is not None)
    return Query(root)


class _Parser:
    """Recursive descent parser; its depth is at most MAX_NESTING."""

    def __init__(self, items: Sequence[QueryItem]) -> None:
        self._items = items
        self._at = 0

    def alternatives(self, *, field: str | None) -> Node | None:
        branches = [self._conjunction(field=field)]
        while self._take("or"):
            branches.append(self._conjunction(field=field))
        present = tuple(branch for branch in branches if branch is not None)
        return _any_of(present) if present else None

    def _conjunction(self, *, field: str | None) -> Node | None:
        nodes: list[Node] = []
        while self._at < len(self._items) and self._items[self._at].kind not in ("or", "close"):
            node = self._operand(field=field)
            if node is not None:
                nodes.append(node)
        return _all_of(nodes) if nodes else None

    def _operand(self, *, field: str | None) -> Node | None:
        item = self._items[self._at]
        self._at += 1
        if item.kind == "not":
            node = self._operand(field=field) if self._at < len(self._items) else None
            return None if node is None else Not(node, item.position)
        if item.kind == "open":
            node = self.alternatives(field=item.field or field)
            self._take("close")
            return node
        if item.kind == "leaf" and item.leaf is not None:
            return replace(item.leaf, field=item.leaf.field or field)
        return None

    def _take(self, kind: str) -> bool:
        is_next = self._at < len(self._items) and self._items[self._at].kind == kind
        self._at += is_next
        return is_next


def _all_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else And(tuple(nodes))


def _any_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes))


def _require_positive_leaf(node: Node) -> None:
    """Raise QueryError if a branch only excludes, because such a branch would match everything."""
    match node:
        case Not():
            message = "The query only excludes. Add a word to search for, or quote this one."
            raise QueryError("only_negative", message=message, position=node.position)
        case And():
            positive = [child for child in node.nodes if not isinstance(child, Not)]
            for child in positive or node.nodes[:1]:
                _require_positive_leaf(child)
            for child in node.nodes:
                if isinstance(child, Not):
                    _require_positive_leaf(child.node)
        case Or():
            for child in node.nodes:
                _require_positive_leaf(child)
        case Leaf():
            pass


def _require_size_within_limits(leaves: Iterator[Leaf]) -> None:
    size = 0
    for leaf in leaves:
        pattern = compile_leaf(leaf, languages=())
        size += pattern.words
        if size > MAX_QUERY_TERMS:
            message = f"The query has more than {MAX_QUERY_TERMS} words; shorten it."
            raise QueryError("too_many_terms", message=message, position=leaf.position)
        first = pattern.groups[0].alternatives[0][0] if pattern.atomic else None
        if first and first.prefix and len(first.terms[0]) < MIN_PREFIX_CHARS:
            message = f"A prefix needs at least {MIN_PREFIX_CHARS} letters."
            raise QueryError("prefix_too_short", message=message, position=leaf.position)
