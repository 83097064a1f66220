"""The query language: words (all), "phrases", prefix*, OR, -not, field:word, parentheses.

OR binds looser than standing side by side: `lease paris OR rent lyon` is either pair. `AND` and
`NOT` in capitals are understood too. People type what they type, so whatever can be taken as plain
text is: a quote or parenthesis without its partner, an operator without operands, an unknown field
name. Only what can have no answer is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from evidence.analyser.patterns import pattern
from evidence.analyser.queries import And, Leaf, Node, Not, Or, Query, QueryError
from evidence.analyser.query_items import Item, items

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
            node = self._one(field=field) if self._at < len(self._items) else None
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
