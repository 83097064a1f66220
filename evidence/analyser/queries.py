"""What a query is once it has been read: a tree of leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

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
