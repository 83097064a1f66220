"""Encode fields as tsvector lexemes, and compile a query to tsquery text and its phrases to pairs of bytes.

A lexeme is field code, tier and term: `b2invoice` means that "invoice" is in field `b` with impact
2. In the database the code of the owner stands before it (`storage_layout.owner_code`). Because the lexeme
includes the field, a field that a grant hides can neither match nor rank.
Impact uses constants and no statistics of the stored texts, which would reveal hidden records.

Huge fields lose everything after `MAX_INDEXED_CHARS` code points. If the lexemes of a field exceed
its share of a tsvector, terms of the lowest impact go first, and later terms before earlier ones.
The share depends on the number of searched fields in the stream and not on their content, so a
hidden field cannot displace words of a visible one.

The order of words of a match contains the pairs of a phrase; see `terms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

from evidence.search.analysis.matcher import is_ordered, is_plain
from evidence.search.analysis.query import (
    And,
    Leaf,
    Node,
    Not,
    Or,
    PatternGroup,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.terms import ANY_ORDER, ANY_WORD, MAX_TERM_CHARS, join_texts
from evidence.search.analysis.tokenizer import index_text, term_bytes

TIERS = 4
LEXEME_END = "\0\0\0"
"""Bytes after a lexeme in a binary tsvector: its terminator, and zero positions. No term contains
U+0000."""

MAX_INDEXED_CHARS = 4_000_000

# PostgreSQL rejects a tsvector of 2**20 bytes or more. Each searched field of a stream gets an equal
# share. Position limits do not apply because no positions are stored.
MAX_TSVECTOR_BYTES = 1_000_000

# Standard BM25 constants, with the length of a short email as the average length.
_K1 = 1.2
_B = 0.75
_AVERAGE_LENGTH = 200

# Tier boundaries. At weight 1: once in a long text, once in an email, often or in a short text.
_MIN_IMPACTS = (0.4, 0.7, 1.1)

_CACHED_TIERS = 65_536

# Upper bound: a field code of several letters, a tier, and a term of four-byte characters.
_MAX_LEXEME_BYTES = 16 + 4 * MAX_TERM_CHARS


class IndexedField(NamedTuple):
    """One searchable field of a record. `code` is ASCII without a digit at its end; a body has weight 1.0."""

    code: str
    text: str
    weight: float


class _Tiers(NamedTuple):
    """The frequency of each term, the tier of each frequency, and the order of the words."""

    counts: dict[str, int]
    tier_of: dict[int, int]
    order: bytes


class EncodedLexemes(NamedTuple):
    """Distinct lexemes in one string, each followed by LEXEME_END, and their number.

    ``orders`` maps each field code to the order of its words.
    """

    text: str
    total: int
    orders: Mapping[str, bytes]


def encode_lexemes(
    fields: Sequence[IndexedField], *, languages: tuple[str, ...], codes: int = 1
) -> EncodedLexemes:
    """Return the distinct lexemes of a record of a stream with `codes` searched fields.

    If two fields share a code, the higher tier applies. The result is one string because one string
    per lexeme would take half of the time.
    """
    by_code: dict[str, _Tiers] = {}
    for field in fields:
        tiers = _tiers(field, languages=languages)
        known = by_code.get(field.code)
        by_code[field.code] = tiers if known is None else _higher_tiers(known, tiers)
    room = MAX_TSVECTOR_BYTES // max(codes, len(by_code), 1)
    encoded = [_encode_field(code, tiers, room) for code, tiers in by_code.items()]
    return EncodedLexemes(
        "".join(text for text, _ in encoded),
        sum(total for _, total in encoded),
        {code: tiers.order for code, tiers in by_code.items()},
    )


@lru_cache(maxsize=_CACHED_TIERS)
def impact_tier(frequency: int, *, length: int, weight: float) -> int:
    """Return the quantized impact, 0 to 3, of a term in a field of `length` words."""
    norm = _K1 * (1 - _B + _B * length / _AVERAGE_LENGTH)
    impact = weight * frequency / (frequency + norm)
    return sum(impact >= minimum for minimum in _MIN_IMPACTS)


def _tiers(field: IndexedField, *, languages: tuple[str, ...]) -> _Tiers:
    counts, length, order = index_text(field.text[:MAX_INDEXED_CHARS], languages=languages)
    tier_of = {
        count: impact_tier(count, length=length, weight=field.weight)
        for count in set(counts.values())
    }
    is_whole = len(field.text) <= MAX_INDEXED_CHARS
    return _Tiers(counts, tier_of, order if is_whole else ANY_ORDER)


def _encode_field(code: str, tiers: _Tiers, room: int) -> tuple[str, int]:
    """Return as many lexemes of one field as fit into `room` bytes, and their number."""
    text, total = "".join(_parts(code, tiers)), len(tiers.counts)
    if total * _MAX_LEXEME_BYTES <= room:
        return text, total
    selected = _highest_tiers_within(text.split(LEXEME_END)[:-1], room)
    return LEXEME_END.join([*selected, ""]), len(selected)


def _parts(code: str, tiers: _Tiers) -> list[str]:
    """Return the parts of the lexemes of one field, to be joined."""
    counts, tier_of, _ = tiers
    prefix_of = {count: f"{code}{tier}" for count, tier in tier_of.items()}
    parts: list[str] = []
    for term, count in counts.items():
        parts += prefix_of[count], term, LEXEME_END
    return parts


def _higher_tiers(one: _Tiers, other: _Tiers) -> _Tiers:
    """Merge two fields of one code: each term gets its higher tier, stored in place of counts."""
    tiers = {term: one.tier_of[count] for term, count in one.counts.items()}
    for term, count in other.counts.items():
        tiers[term] = max(tiers.get(term, 0), other.tier_of[count])
    order = join_texts((one.order, other.order))
    return _Tiers(tiers, {tier: tier for tier in range(TIERS)}, order)


def _highest_tiers_within(lexemes: list[str], room: int) -> list[str]:
    """Return as many lexemes as fit into `room` bytes, highest tiers first, then in order."""
    selected: list[str] = []
    for name in sorted(lexemes, key=_tier_of_lexeme, reverse=True):
        room -= len(name.encode())
        if room < 0:
            break
        selected.append(name)
    return selected


def _tier_of_lexeme(name: str) -> str:
    return next(filter(str.isdigit, name))


def to_tsquery(
    query: Query, *, codes: Mapping[str, str], languages: tuple[str, ...], least_tier: int = 0
) -> str | None:
    """Return a tsquery that matches at least the results of the query, or None if there are none.

    `codes` maps field names to field codes. A phrase becomes all of its words, and a negated phrase
    is omitted; `verifier.verify` removes the false matches.
    """
    return _TsqueryCompiler(codes, languages, range(least_tier, TIERS)).node(query.root)


def lexeme_starts(codes: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the lexemes of these fields begin with: each code with each tier."""
    return tuple(f"{code}{tier}" for code in sorted(set(codes.values())) for tier in range(TIERS))


def score_terms(
    query: Query, *, codes: Mapping[str, str], languages: tuple[str, ...]
) -> Mapping[tuple[str, ...], int]:
    """Return each word of the query, as one tsquery per tier, highest tier first, and its weight.

    A word scores by the first tsquery that matches; a record scores the sum over its words. A
    compound scores as a whole and by each part, so exact matches come first. Spellings of one word, which
    are at the same position, score once.
    """
    writers = [
        _TsqueryCompiler(codes, languages, range(tier, tier + 1)) for tier in reversed(range(TIERS))
    ]
    units: dict[tuple[str, ...], int] = {}
    words: dict[int, list[Leaf]] = {}
    for leaf in query.positive_leaves():
        words.setdefault(leaf.position, []).append(leaf)
    for leaves in words.values():
        each = [
            (leaf, unit)
            for leaf in leaves
            for group in compile_leaf(leaf, languages=languages).groups
            for unit in _units(group)
        ]
        for scored in [[one] for one in each] if len(leaves) == 1 else [each]:
            texts = [writer.any_of(*scored) for writer in writers]
            units.setdefault(tuple(text for text in texts if text is not None), leaves[0].weight)
    return {unit: weight for unit, weight in units.items() if unit}


def _units(group: PatternGroup) -> Iterator[Sequence[TermSet]]:
    """Yield what scores separately: the bigrams of a CJK run together, other terms one by one."""
    for alternative in group.alternatives:
        if group.cjk:
            yield alternative
        else:
            yield from ((terms,) for terms in alternative)


class _TsqueryCompiler:
    def __init__(
        self, codes: Mapping[str, str], languages: tuple[str, ...], tiers: Sequence[int]
    ) -> None:
        self._codes = codes
        self._languages = languages
        self._tiers = tiers

    def node(self, node: Node) -> str | None:
        """Return the tsquery of a node, or None if it cannot match."""
        match node:
            case Leaf():
                return self._leaf(node)
            case Or():
                branches = [text for child in node.nodes if (text := self.node(child))]
                return _join_tsquery(" | ", branches) if branches else None
            case And():
                return self._all_of(node)
            case Not():
                return None

    def any_of(self, *alternatives: tuple[Leaf, Sequence[TermSet]]) -> str | None:
        """Return a tsquery for any of the terms, in any field that their leaf allows."""
        names = [
            name
            for leaf, sets in alternatives
            for terms in sets
            for name in self._lexemes(terms, leaf=leaf)
        ]
        return _join_tsquery(" | ", names) if names else None

    def _all_of(self, node: And) -> str | None:
        required = [self.node(child) for child in node.nodes if not isinstance(child, Not)]
        if None in required:
            return None
        excluded = [self._excluded(child) for child in node.nodes if isinstance(child, Not)]
        return _join_tsquery(" & ", [text for text in (*required, *excluded) if text])

    def _excluded(self, negation: Not) -> str | None:
        """Return the tsquery of an exclusion, or None if the index alone cannot decide it."""
        if not self._is_exact(negation.node):
            return None
        text = self.node(negation.node)
        return None if text is None else f"!{text}"

    def _is_exact(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return not node.exact and compile_leaf(node, languages=self._languages).atomic
        return isinstance(node, Or | And) and all(map(self._is_exact, node.nodes))

    def _leaf(self, leaf: Leaf) -> str | None:
        groups = [
            _join_tsquery(
                " | ", [text for terms in group.alternatives if (text := self._all(terms, leaf))]
            )
            for group in compile_leaf(leaf, languages=self._languages).groups
        ]
        return _join_tsquery(" & ", groups) if all(groups) and groups else None

    def _all(self, alternative: Sequence[TermSet], leaf: Leaf) -> str:
        texts = [self.any_of((leaf, (terms,))) for terms in alternative]
        return _join_tsquery(" & ", [text for text in texts if text])

    def _lexemes(self, terms: TermSet, *, leaf: Leaf) -> Iterator[str]:
        suffix = ":*" if terms.prefix else ""
        escaped = [term.replace("\\", "\\\\").replace("'", "''") for term in terms.terms]
        for code in self._codes_of(leaf):
            for tier in self._tiers:
                for term in escaped:
                    yield f"'{code}{tier}{term}'{suffix}"

    def _codes_of(self, leaf: Leaf) -> Sequence[str]:
        if leaf.field is None:
            return sorted(set(self._codes.values()))
        return [self._codes[leaf.field]] if leaf.field in self._codes else []


def _join_tsquery(operator: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({operator.join(texts)})" if texts else ""


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
