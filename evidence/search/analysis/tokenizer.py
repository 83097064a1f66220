"""Tokenize a text into terms with offsets and positions.

All terms come from this module. `tokenize` returns complete tokens, `index_text` returns what
the index needs, and `find_tokens` returns the few tokens that a query needs.

The terms of a token are its folded form and its stem in each language; two words match when they
share a term. In CJK text every character is a token and every two neighbors are another, so queries
of one character work and longer words stay together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from evidence.search.analysis.chunks import POSITIONS, UNIT, ChunkAnalyzer, MatchCache
from evidence.search.analysis.segmentation import EXTRA_WORD, NO_WORD, TermFilter, Token
from evidence.search.analysis.terms import join_orders

UNITS_PER_TEXT = 1_000_000
"""Default limit for one text. Prose of three million characters needs less."""


class WorkLimit:
    """The text analysis that one response may cost. Not thread-safe: each response has its own.

    Anyone can write a text, and a client can search it repeatedly. Work is counted in units of about
    one microsecond, from the text alone and never from a clock or a cache, so the same request over
    the same visible text always stops at the same place.
    """

    __slots__ = ("left",)

    def __init__(self, units: int = UNITS_PER_TEXT) -> None:
        self.left = units

    @property
    def exhausted(self) -> bool:
        """Whether no units are left, so that the last analysis may be incomplete."""
        return self.left <= 0

    def spend(self, units: int) -> None:
        """Subtract the units of completed work."""
        self.left -= units

    @contextmanager
    def share(self, *, max_units: int, min_units: int = 0) -> Iterator[WorkLimit]:
        """Give one text a budget between `min_units` and `max_units`, and subtract what it used.

        One expensive text then cannot use up the budget of the others.
        """
        part = WorkLimit(max(min_units, min(max_units, self.left)))
        granted = part.left
        try:
            yield part
        finally:
            self.left -= granted - part.left


# Texts, and runs without white space, are analyzed in blocks of at most this many code points, so
# that no single call into C blocks other threads for long.
BLOCK_CHARS = 65_536
_CHUNK = re.compile(rf"\S{{1,{BLOCK_CHARS}}}")
_SPACE = re.compile(r"\s")

# "1 234,50 €": a no-break space between digits groups them. An invisible joiner of the same width
# replaces it, and folding removes the joiner.
_GROUPING_SPACES = "\u00a0\u202f\u2009"
_GROUPING_SPACE = re.compile(rf"(?<=[0-9])[{_GROUPING_SPACES}](?=[0-9]{{3}}(?![0-9]))")
_JOINER = "\u2060"
# Characters after a space that decide whether it groups digits.
_GROUP_CONTEXT = 4

_CACHED_LANGUAGE_SETS = 4
_CACHED_FILTERS = 16


def tokenize(text: str, *, languages: tuple[str, ...]) -> Iterator[Token]:
    """Yield all tokens of `text` ordered by start; at equal starts, the longest first."""
    analyzer, position = _analyzer(languages), 0
    for offset, block in split_blocks(text):
        for match in _CHUNK.finditer(block):
            chunk = analyzer.chunk(match.group())
            for token in chunk.tokens:
                yield token.moved(offset + match.start(), position)
            position += chunk.positions


def find_tokens(
    text: str,
    *,
    languages: tuple[str, ...],
    term_filter: TermFilter,
    work: WorkLimit,
    start: int = 0,
) -> Iterator[Token]:
    """Yield the tokens of `text` that the filter accepts, as far as `work` allows.

    With `start`, begin at the first white space from there, and count positions from that.
    """
    cache = match_cache(languages, term_filter)
    space = _SPACE.search(text, start) if start else None
    # Positions and units share one number because nearly all of the time goes into this loop.
    total, limit = 0, work.left * UNIT
    try:
        for offset, block in split_blocks(text, space.end() if space else start):
            for match in _CHUNK.finditer(block):
                matches = cache[match.group()]
                if isinstance(matches, int):
                    total += matches
                else:
                    for token in matches.tokens:
                        yield token.moved(offset + match.start(), total & POSITIONS)
                    total += matches.packed_counts
                if total > limit:
                    return
    finally:
        work.spend(total // UNIT)


class IndexedText(NamedTuple):
    """The number of tokens per term, the length in words, and the order of the words of a text.

    Two CJK characters count as one word of length. `terms` explains the order.
    """

    counts: dict[str, int]
    length: int
    order: bytes


def index_text(text: str, *, languages: tuple[str, ...]) -> IndexedText:
    """Return what the index stores of a text."""
    analyzer = _analyzer(languages)
    terms_of, order_of = analyzer.terms.__getitem__, analyzer.orders.__getitem__
    counts: Counter[str] = Counter()
    orders: list[bytes] = []
    chunk_count = 0
    for _, block in split_blocks(text):
        chunks = block.split()
        chunk_count += len(chunks)
        counts.update(chain.from_iterable(map(terms_of, chunks)))
        orders.append(b"".join(map(order_of, chunks)))
    length = chunk_count + counts.pop(EXTRA_WORD, 0) - counts.pop(NO_WORD, 0)
    return IndexedText(counts, length, join_orders(orders))


def term_bytes(languages: tuple[str, ...]) -> Mapping[str, int]:
    """Return the byte of each term in the order of words."""
    return _analyzer(languages).term_bytes


@lru_cache(maxsize=_CACHED_FILTERS)
def match_cache(languages: tuple[str, ...], term_filter: TermFilter) -> MatchCache:
    """Return the matches of chunks; one page of results looks for the same terms in many texts."""
    return MatchCache(_analyzer(languages), term_filter=term_filter)


def chunk_terms(languages: tuple[str, ...]) -> Mapping[str, Iterable[str]]:
    """Return the terms and length marks of every chunk."""
    return _analyzer(languages).terms


@lru_cache(maxsize=_CACHED_LANGUAGE_SETS)
def _analyzer(languages: tuple[str, ...]) -> ChunkAnalyzer:
    return ChunkAnalyzer(languages)


def split_blocks(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield offset and text of each block, cut at white space where possible."""
    while start < len(text):
        end = start + BLOCK_CHARS
        block = _join_digit_groups(text, start, end)
        if end < len(text):
            block = block[: _last_word_start(block)]
        yield start, block
        start += len(block)


def _join_digit_groups(text: str, start: int, end: int) -> str:
    """Return `text[start:end]` with joiners in place of the no-break spaces that group digits."""
    context = max(0, start - 1)
    around = text[context : end + _GROUP_CONTEXT]
    if not around.isascii() and any(space in around for space in _GROUPING_SPACES):
        around = _GROUPING_SPACE.sub(_JOINER, around)
    return around[start - context : end - context]


def _last_word_start(block: str) -> int:
    """Return where the last word starts, or the end of a block that is one run."""
    if block[-1].isspace():
        return len(block)
    return len(block) - len(block.rsplit(None, 1)[-1]) or len(block)
