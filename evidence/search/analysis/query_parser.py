"""The query language: words (all), "phrases", prefix*, OR, -not, field:word, parentheses.

OR binds looser than standing side by side: `lease paris OR rent lyon` is either pair. `AND` and
`NOT` in capitals are understood too. People type what they type, so whatever can be taken as plain
text is: a quote or parenthesis without its partner, an operator without operands, an unknown field
name. Only what can have no answer is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evidence.search.analysis.query_tree import And, Leaf, Node, Not, Or, Query, QueryError, pattern

NESTING = 16

ItemKind = Literal["leaf", "or", "and", "not", "open", "close"]

_OPERATORS: dict[str, ItemKind] = {"OR": "or", "|": "or", "AND": "and", "NOT": "not"}
_QUOTES = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02'
_QUOTE = re.compile(f"[{_QUOTES}]")
_FIELD = re.compile(rf"([^\s:(){_QUOTES}]+):(?=\S)")
_MINUS = re.compile(r"(?<![^\s(])-(?=[^\s-])")
_WORD = re.compile(rf"[^\s(){_QUOTES}]+")


@dataclass(frozen=True, slots=True)
class Item:
    """`leaf` is what a leaf says, or what an operator says where it turns out to be text."""

    kind: ItemKind
    position: int
    leaf: Leaf | None = None
    field: str | None = None


def items(q: str, *, fields: Collection[str]) -> list[Item]:
    """The items of a query, with partnerless parentheses and operators taken as text or dropped."""
    return _operators_with_operands(_paired(list(_scanned(q, fields=fields))))


def _scanned(q: str, *, fields: Collection[str]) -> Iterator[Item]:
    at = 0
    while at < len(q):
        start = at
        if minus := _MINUS.match(q, at):
            yield Item("not", at)
            at = minus.end()
        field = _FIELD.match(q, at)
        name = field[1] if field and field[1] in fields else None
        if field and name:
            at = field.end()
        item, at = _operand(q, at=at, field=name)
        if item is not None:
            yield item
        at = max(at, start + 1)


def _operand(q: str, *, at: int, field: str | None) -> tuple[Item | None, int]:
    """The leaf, operator or parenthesis at `at`, if there is one, and where to go on."""
    if at < len(q) and q[at] in "()":
        return Item("open" if q[at] == "(" else "close", at, field=field), at + 1
    if at < len(q) and q[at] in _QUOTES:
        closing = _QUOTE.search(q, at + 1)
        if closing is None:
            return None, at + 1
        phrase = Leaf(q[at + 1 : closing.start()], at + 1, field=field, phrase=True)
        return _item(phrase), closing.end()
    word = _WORD.match(q, at)
    if word is None:
        return None, at + 1
    written = word.group()
    if field is None and written in _OPERATORS:
        return Item(_OPERATORS[written], at, leaf=Leaf(written, at)), word.end()
    text = written.rstrip("*")
    return _item(Leaf(text, at, field=field, prefix=written != text)), word.end()


def _item(leaf: Leaf) -> Item | None:
    """A leaf that has something to look for; punctuation alone has not."""
    return Item("leaf", leaf.position, leaf=leaf) if pattern(leaf, languages=()).groups else None


def _paired(found: list[Item]) -> list[Item]:
    """Without the parentheses that have no partner."""
    opened: list[int] = []
    partnered: set[int] = set()
    for place, item in enumerate(found):
        if item.kind == "open":
            opened.append(place)
            if len(opened) > NESTING:
                message = f"Parentheses may be nested {NESTING} deep."
                raise QueryError("too_deep", message=message, position=item.position)
        elif item.kind == "close" and opened:
            partnered |= {opened.pop(), place}
    return [
        item
        for place, item in enumerate(found)
        if item.kind not in ("open", "close") or place in partnered
    ]


def _operators_with_operands(found: list[Item]) -> list[Item]:
    """With operators that lack an operand as the words they are."""
    kept: list[Item] = []
    for place, item in enumerate(found):
        following = found[place + 1].kind if place + 1 < len(found) else None
        before = bool(kept) and kept[-1].kind in ("leaf", "close")
        after = following in ("leaf", "not", "open")
        idle = {"not": not after, "or": not (before and after), "and": not (before and after)}
        if not idle.get(item.kind, False):
            kept.append(item)
        elif item.leaf and (text := _item(item.leaf)):
            kept.append(text)
    return kept


QUERY_CHARS = 1_000
QUERY_TERMS = 32
_PREFIX_CHARS = 2


def parse(q: str, *, fields: Collection[str] = frozenset()) -> Query:
    """Read a query. `fields` are the names that may stand before a colon.

    Raises `QueryError`, and nothing else, whatever the text.
    """
    if len(q) > QUERY_CHARS:
        message = f"The query is longer than {QUERY_CHARS:,} characters."
        raise QueryError("query_too_long", message=message, position=QUERY_CHARS)
    found = items(q, fields=fields)
    root = _Reader(found).either(field=None)
    if root is None:
        message = "The query has no word to look for."
        raise QueryError("empty_query", message=message, position=0)
    _require_something_wanted(root)
    _require_moderate_size(item.leaf for item in found if item.leaf is not None)
    return Query(root)


class _Reader:
    """Recursive descent over the items; as deep as parentheses may be nested, no deeper."""

    def __init__(self, found: Sequence[Item]) -> None:
        self._items = found
        self._at = 0

    def either(self, *, field: str | None) -> Node | None:
        branches = [self._together(field=field)]
        while self._take("or"):
            branches.append(self._together(field=field))
        present = tuple(branch for branch in branches if branch is not None)
        return _any_of(present) if present else None

    def _together(self, *, field: str | None) -> Node | None:
        nodes: list[Node] = []
        while self._at < len(self._items) and self._items[self._at].kind not in ("or", "close"):
            node = self._one(field=field)
            if node is not None:
                nodes.append(node)
        return _all_of(nodes) if nodes else None

    def _one(self, *, field: str | None) -> Node | None:
        item = self._items[self._at]
        self._at += 1
        if item.kind == "not":
            node = self._one(field=field)
            return None if node is None else Not(node, item.position)
        if item.kind == "open":
            node = self.either(field=item.field or field)
            self._take("close")
            return node
        if item.kind == "leaf" and item.leaf is not None:
            return replace(item.leaf, field=item.leaf.field or field)
        return None

    def _take(self, kind: str) -> bool:
        taken = self._at < len(self._items) and self._items[self._at].kind == kind
        self._at += taken
        return taken


def _all_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else And(tuple(nodes))


def _any_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes))


def _require_something_wanted(node: Node) -> None:
    """Whatever may match alone must ask for something: exclusions alone would match everything."""
    match node:
        case Not():
            message = "This only excludes. Add a word to look for, or quote it to look for this."
            raise QueryError("only_negative", message=message, position=node.position)
        case And():
            wanted = [child for child in node.nodes if not isinstance(child, Not)]
            for child in wanted or node.nodes[:1]:
                _require_something_wanted(child)
            for child in node.nodes:
                if isinstance(child, Not):
                    _require_something_wanted(child.node)
        case Or():
            for child in node.nodes:
                _require_something_wanted(child)
        case Leaf():
            pass


def _require_moderate_size(leaves: Iterator[Leaf]) -> None:
    size = 0
    for leaf in leaves:
        asked = pattern(leaf, languages=())
        size += asked.words
        if size > QUERY_TERMS:
            message = f"The query has more than {QUERY_TERMS} words."
            raise QueryError("too_many_terms", message=message, position=leaf.position)
        first = asked.groups[0].alternatives[0][0] if asked.atomic else None
        if first and first.prefix and len(first.terms[0]) < _PREFIX_CHARS:
            message = f"A prefix needs at least {_PREFIX_CHARS} letters."
            raise QueryError("prefix_too_short", message=message, position=leaf.position)
