"""Compile the phrases of a query to pairs of bytes that the order of words of a match contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeAlias

from evidence.search.analysis.matcher import is_ordered
from evidence.search.analysis.query_tree import (
    And,
    Leaf,
    Node,
    Not,
    Pattern,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.tokenizer import term_bytes
from evidence.search.analysis.word_order import ANY_WORD


@dataclass(frozen=True, slots=True)
class PhrasePairs:
    """Some field, or `field`, contains one of the alternatives of each pair."""

    field: str | None
    pairs: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the conditions are required."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of the conditions is required."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = PhrasePairs | AllOf | AnyOf


def required_pairs(query: Query, *, languages: tuple[str, ...]) -> Condition | None:
    """Return a condition that every match satisfies; None if there is none.

    Exact phrases, excluded ones, compounds and scripts without spaces have no condition.
    """
    return _node(query.root, languages)


def _node(node: Node, languages: tuple[str, ...]) -> Condition | None:
    if isinstance(node, Leaf):
        return _leaf(node, languages)
    if isinstance(node, Not):
        return None
    conditions = [_node(child, languages) for child in node.nodes]
    known = tuple(condition for condition in conditions if condition is not None)
    if isinstance(node, And):
        return AllOf(known) if known else None
    return AnyOf(known) if len(known) == len(conditions) else None


def _leaf(leaf: Leaf, languages: tuple[str, ...]) -> Condition | None:
    pattern = compile_leaf(leaf, languages=languages)
    if leaf.exact or not is_ordered(leaf, languages=languages) or not is_plain(pattern):
        return None
    bytes_of = term_bytes(languages)
    words = [_bytes_of_word(step.terms, bytes_of) for step in pattern.steps]
    pairs = tuple(
        tuple(map(bytes, product([*one, ANY_WORD], [*other, ANY_WORD])))
        for one, other in pairwise(words)
        if one and other
    )
    return PhrasePairs(leaf.field, pairs) if pairs else None


def _bytes_of_word(terms: TermSet, bytes_of: Mapping[str, int]) -> Sequence[int]:
    """Return the possible bytes of a word, none if it can have any."""
    found = {bytes_of[term] for term in terms.terms}
    return [] if terms.prefix or 0 in found else sorted(found)


def is_plain(pattern: Pattern) -> bool:
    """Return whether a pattern is a sequence of single words, without compounds and CJK bigrams."""
    return bool(pattern.steps) and all(
        (step.source, step.target, step.overlapping) == (at, at + 1, False)
        for at, step in enumerate(pattern.steps)
    )
