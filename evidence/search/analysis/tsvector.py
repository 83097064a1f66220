"""Encode fields as tsvector lexemes.

A lexeme is field code, tier and term: `b2invoice` means that "invoice" is in field `b` with impact
2. In the database the code of the owner stands before it (`storage_layout.owner_code`). Because the lexeme includes the field, a field that a grant hides can neither match nor rank.
Impact uses constants and no statistics of the stored texts, which would reveal hidden records.

Huge fields lose everything after `MAX_INDEXED_CHARS` code points. If the lexemes of a field exceed
its share of a tsvector, terms of the lowest impact go first, and later terms before earlier ones.
The share depends on the number of searched fields in the stream and not on their content, so a
hidden field cannot displace words of a visible one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from evidence.search.analysis.terms import ANY_ORDER, MAX_TERM_CHARS, join_texts
from evidence.search.analysis.tokenizer import index_text

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
