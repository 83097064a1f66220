"""Lexemes: a record's searchable fields as the entries of a tsvector without positions.

A lexeme is field code, tier and term: `b2invoice` says that "invoice" is in field `b` with impact
2. The field is part of the word that is looked up, so what a grant does not show can neither match
nor rank. Impact uses constants only, never statistics of the stored texts: those would tell a narrow
grant about what it hides.

What huge fields lose: everything after `INDEXED_CHARS` code points and, when the lexemes of a field
outgrow its share of a tsvector, the terms of lowest impact first and, among equals, the later ones.
The share depends on how many fields a stream searches and never on what they hold, so that a hidden
field cannot push out words of a visible one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from evidence.search.analysis.query_tree import (
    And,
    Group,
    Leaf,
    Node,
    Not,
    Or,
    Query,
    Terms,
    pattern,
)
from evidence.search.analysis.terms import TERM_CHARS
from evidence.search.analysis.tokenizer import term_frequencies

TIERS = 4
END = "\0\0\0"
"""What stands after a lexeme in the binary form of a tsvector: its end, and that it has no positions.
No term holds U+0000."""

INDEXED_CHARS = 4_000_000

# PostgreSQL refuses a tsvector whose lexemes take 2**20 bytes or more. Each searched field of a
# stream gets an equal share. The limits of positions do not apply, because none are stored.
LEXEME_BYTES = 1_000_000

# BM25's usual constants, and the length of a short mail as "the average" of everything.
_K1 = 1.2
_B = 0.75
_AVERAGE_LENGTH = 200

# At weight 1: a word once in a long text, once in a mail, often or in a short text, in a title.
_LEAST_IMPACT = (0.4, 0.7, 1.1)

_CACHED_TIERS = 65_536

# No lexeme is longer: a field code of some letters, a tier, a term of four-byte characters.
_LONGEST_BYTES = 16 + 4 * TERM_CHARS


class IndexedField(NamedTuple):
    """One searchable field of a record. `code` is lower-case ASCII letters; 1.0 is a body's weight."""

    code: str
    text: str
    weight: float


class _Tiers(NamedTuple):
    """How often each term occurs, and which tier each such number makes."""

    counts: dict[str, int]
    tier_of: dict[int, int]


class Joined(NamedTuple):
    """Distinct lexemes in one string, each followed by END."""

    text: str
    total: int


def joined_lexemes(
    fields: Sequence[IndexedField], *, languages: tuple[str, ...], codes: int = 1
) -> Joined:
    """The distinct lexemes of a record of a stream with `codes` searched fields.

    Two fields may share a code; the higher tier then holds. The lexemes are joined here because
    making a string of each of them would be half of the work.
    """
    by_code: dict[str, _Tiers] = {}
    for field in fields:
        tiers = _tiers(field, languages=languages)
        known = by_code.get(field.code)
        by_code[field.code] = tiers if known is None else _higher(known, tiers)
    room = LEXEME_BYTES // max(codes, len(by_code), 1)
    joined = [_joined(code, tiers, room) for code, tiers in by_code.items()]
    return Joined("".join(each.text for each in joined), sum(each.total for each in joined))


def lexemes(
    fields: Sequence[IndexedField], *, languages: tuple[str, ...], codes: int = 1
) -> list[str]:
    """The lexemes of `joined_lexemes` one by one."""
    return joined_lexemes(fields, languages=languages, codes=codes).text.split(END)[:-1]


@lru_cache(maxsize=_CACHED_TIERS)
def tier(frequency: int, *, length: int, weight: float) -> int:
    """The quantised impact, 0 to 3, of a term that occurs so often in a field of `length` words."""
    norm = _K1 * (1 - _B + _B * length / _AVERAGE_LENGTH)
    impact = weight * frequency / (frequency + norm)
    return sum(impact >= least for least in _LEAST_IMPACT)


def tsvector_text(lexemes: Iterable[str]) -> str:
    """The text form of a tsvector of these lexemes; COPY's own escaping comes on top of it."""
    names = list(lexemes)
    joined = "' '".join(names)
    if joined.count("'") > 2 * (len(names) - 1) or "\\" in joined:
        joined = "' '".join(name.replace("\\", "\\\\").replace("'", "''") for name in names)
    return f"'{joined}'" if names else ""


def _tiers(field: IndexedField, *, languages: tuple[str, ...]) -> _Tiers:
    counts, length = term_frequencies(field.text[:INDEXED_CHARS], languages=languages)
    tier_of = {
        count: tier(count, length=length, weight=field.weight) for count in set(counts.values())
    }
    return _Tiers(counts, tier_of)


def _joined(code: str, tiers: _Tiers, room: int) -> Joined:
    """The lexemes of one field, as many as fit into `room` bytes."""
    text, total = "".join(_parts(code, tiers)), len(tiers.counts)
    if total * _LONGEST_BYTES <= room:
        return Joined(text, total)
    kept = _fitting(text.split(END)[:-1], room)
    return Joined(END.join([*kept, ""]), len(kept))


def _parts(code: str, tiers: _Tiers) -> list[str]:
    """The pieces of the lexemes of one field."""
    counts, tier_of = tiers
    start_of = {count: f"{code}{tier}" for count, tier in tier_of.items()}
    parts: list[str] = []
    for term, count in counts.items():
        parts += start_of[count], term, END
    return parts


def _higher(one: _Tiers, other: _Tiers) -> _Tiers:
    """Two fields of one code: each term with the better of its tiers, which stand for counts now."""
    tiers = {term: one.tier_of[count] for term, count in one.counts.items()}
    for term, count in other.counts.items():
        tiers[term] = max(tiers.get(term, 0), other.tier_of[count])
    return _Tiers(tiers, {tier: tier for tier in range(TIERS)})


def _fitting(found: list[str], room: int) -> list[str]:
    """As many lexemes as fit into `room` bytes: of the highest tiers, then those that come first."""
    kept: list[str] = []
    for name in sorted(found, key=_tier_of_lexeme, reverse=True):
        room -= len(name.encode())
        if room < 0:
            break
        kept.append(name)
    return kept


def _tier_of_lexeme(name: str) -> str:
    return next(filter(str.isdigit, name))


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
                return _tsquery_joined(" | ", branches) if branches else None
            case And():
                return self._all_of(node)
            case Not():
                return None

    def any_of(self, alternatives: Sequence[Terms], *, leaf: Leaf) -> str | None:
        """Any of the terms, in any field that the leaf may look into."""
        names = [name for terms in alternatives for name in self._lexemes(terms, leaf=leaf)]
        return _tsquery_joined(" | ", names) if names else None

    def _all_of(self, node: And) -> str | None:
        wanted = [self.node(child) for child in node.nodes if not isinstance(child, Not)]
        if None in wanted:
            return None
        excluded = [self._excluded(child) for child in node.nodes if isinstance(child, Not)]
        return _tsquery_joined(" & ", [text for text in (*wanted, *excluded) if text])

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
            _tsquery_joined(
                " | ", [text for each in group.alternatives if (text := self._all(each, leaf))]
            )
            for group in pattern(leaf, languages=self._languages).groups
        ]
        return _tsquery_joined(" & ", groups) if all(groups) and groups else None

    def _all(self, alternative: Sequence[Terms], leaf: Leaf) -> str:
        texts = [self.any_of((terms,), leaf=leaf) for terms in alternative]
        return _tsquery_joined(" & ", [text for text in texts if text])

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


def _tsquery_joined(operator: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({operator.join(texts)})" if texts else ""
