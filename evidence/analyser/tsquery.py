"""Queries as PostgreSQL sees them: text for `%s::tsquery` over lexemes of field, tier and term.

Only the codes that are passed in are ever named, so a field that a grant does not show cannot match
or rank, whatever the query says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evidence.analyser.lexemes import TIERS
from evidence.analyser.patterns import Group, Terms, pattern
from evidence.analyser.queries import And, Leaf, Node, Not, Or, Query


def to_tsquery(
    query: Query, *, codes: Mapping[str, str], languages: tuple[str, ...], least_tier: int = 0
) -> str | None:
    """The records that have the terms of the query; None when there can be none.

    `codes` are the field codes by field name. A phrase becomes all of its words: what comes back is
    complete, and `matching.verify` tells the true matches. A negated phrase is left to it entirely.
    """
    return _Writer(codes, languages, range(least_tier, TIERS)).node(query.root)


def score_terms(
    query: Query, *, codes: Mapping[str, str], languages: tuple[str, ...]
) -> list[list[str]]:
    """What scores: for each word of the query one tsquery per tier, the highest tier first.

    A word scores most when the first matches, less when the second does, and so on; a record scores
    the sum over its words. A name with parts scores as a whole and by each part, which puts exact
    matches first.
    """
    writers = [_Writer(codes, languages, range(tier, tier + 1)) for tier in reversed(range(TIERS))]
    units: dict[tuple[str, ...], None] = {}
    for leaf in query.wanted():
        for group in pattern(leaf, languages=languages).groups:
            for unit in _units(group):
                texts = [writer.any_of(unit, leaf=leaf) for writer in writers]
                units.setdefault(tuple(text for text in texts if text is not None))
    return [list(unit) for unit in units if unit]


def _units(group: Group) -> Iterator[Sequence[Terms]]:
    """What scores on its own: the pairs of a dense run together, all else one by one."""
    for alternative in group.alternatives:
        if group.dense:
            yield alternative
        else:
            yield from ((terms,) for terms in alternative)


class _Writer:
    def __init__(
        self, codes: Mapping[str, str], languages: tuple[str, ...], tiers: Sequence[int]
    ) -> None:
        self._codes = codes
        self._languages = languages
        self._tiers = tiers

    def node(self, node: Node) -> str | None:
        """The text of a node; None when it cannot match."""
        match node:
            case Leaf():
                return self._leaf(node)
            case Or():
                branches = [text for child in node.nodes if (text := self.node(child))]
                return _joined(" | ", branches) if branches else None
            case And():
                return self._all_of(node)
            case Not():
                return None

    def any_of(self, alternatives: Sequence[Terms], *, leaf: Leaf) -> str | None:
        """Any of the terms, in any field that the leaf may look into."""
        names = [name for terms in alternatives for name in self._lexemes(terms, leaf=leaf)]
        return _joined(" | ", names) if names else None

    def _all_of(self, node: And) -> str | None:
        wanted = [self.node(child) for child in node.nodes if not isinstance(child, Not)]
        if None in wanted:
            return None
        excluded = [self._excluded(child) for child in node.nodes if isinstance(child, Not)]
        return _joined(" & ", [text for text in (*wanted, *excluded) if text])

    def _excluded(self, negation: Not) -> str | None:
        """The text of an exclusion that the index alone can decide."""
        if not self._exact(negation.node):
            return None
        text = self.node(negation.node)
        return None if text is None else f"!{text}"

    def _exact(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return pattern(node, languages=self._languages).atomic
        return isinstance(node, Or | And) and all(map(self._exact, node.nodes))

    def _leaf(self, leaf: Leaf) -> str | None:
        groups = [
            _joined(" | ", [text for each in group.alternatives if (text := self._all(each, leaf))])
            for group in pattern(leaf, languages=self._languages).groups
        ]
        return _joined(" & ", groups) if all(groups) and groups else None

    def _all(self, alternative: Sequence[Terms], leaf: Leaf) -> str:
        texts = [self.any_of((terms,), leaf=leaf) for terms in alternative]
        return _joined(" & ", [text for text in texts if text])

    def _lexemes(self, terms: Terms, *, leaf: Leaf) -> Iterator[str]:
        suffix = ":*" if terms.prefix else ""
        for code in self._codes_of(leaf):
            for tier in self._tiers:
                for term in terms.terms:
                    yield f"{_quoted(f'{code}{tier}{term}')}{suffix}"

    def _codes_of(self, leaf: Leaf) -> Sequence[str]:
        if leaf.field is None:
            return sorted(set(self._codes.values()))
        return [self._codes[leaf.field]] if leaf.field in self._codes else []


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _joined(operator: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({operator.join(texts)})" if texts else ""
