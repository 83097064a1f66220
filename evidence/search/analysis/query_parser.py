"""Parse the search syntax: words, "phrases", "=exact words", prefix*, OR, -not, field:word, ().

OR binds looser than adjacency: `lease paris OR rent lyon` matches either pair. `AND` and `NOT` in
capitals also work. Invalid syntax is plain text: an unpaired quote or parenthesis, an operator
without operands, an unknown field name. Only a query that cannot have results is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evidence.search.analysis.query_tree import (
    And,
    Leaf,
    Node,
    Not,
    Or,
    Query,
    QueryError,
    compile_leaf,
)

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
