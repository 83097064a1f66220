"""The items of a query: leaves, operators and parentheses, each with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from evidence.analyser.patterns import pattern
from evidence.analyser.queries import Leaf, QueryError

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
