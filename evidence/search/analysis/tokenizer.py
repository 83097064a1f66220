"""Tokenize a text into terms with offsets and positions.

All terms come from this module. `tokenize` returns complete tokens, `index_text` returns what
the index needs, and `find_tokens` returns the few tokens that a query needs.

The terms of a token are its folded form and its stem in each language; two words match when they
share a term. In CJK text every character is a token and every two neighbors are another, so queries
of one character work and longer words stay together.

A text is analyzed in chunks between white space. Most are words that were analyzed before, so an
analysis usually costs one look-up in a cache.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from operator import add
from typing import NamedTuple

from evidence.search.analysis.segmentation import (
    CJK_RUN,
    EXTRA_WORD,
    NO_WORD,
    Chunk,
    ChunkMatches,
    CompoundPart,
    Offsets,
    Segment,
    TermFilter,
    Token,
    cjk_characters,
    cjk_chunk,
    cjk_length,
    cjk_matches,
    find_words,
    fold,
    is_too_long,
    length_marks,
    make_chunk,
    segments,
    split_cjk,
    split_compound,
    split_url,
)
from evidence.search.analysis.terms import (
    OrderCache,
    TermBytes,
    Vocabulary,
    cache_put,
    join_orders,
    literal_term,
    order_of_tokens,
    order_of_word,
)

_CACHED_CHARS = 48
_CACHED_CHUNKS = 131_072
_CACHED_PARTS = 32_768
_CACHED_MATCHES = 16_384

UNIT = 1 << 40
"""One unit of work (`work_limit.WorkLimit`) in a number whose lower bits count positions."""
POSITIONS = UNIT - 1

# Units of work: an accepted token with the pattern steps it takes, a segment, and the number of
# characters per unit in a run that only needs splitting into words.
_TOKEN_UNITS = 4
_SEGMENT_UNITS = 3
_CHARS_PER_UNIT = 8

# Punctuation that surrounds words in prose and changes no analysis.
_EDGES = "().,;:!?\"'[]"


class ChunkAnalyzer:
    """Analyzes chunks for one set of languages. Threads share it; its caches only save work."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._vocabulary = Vocabulary(languages)
        self._chunks: dict[str, Chunk] = {}
        self._parts: dict[str, Chunk] = {}
        self.term_bytes = TermBytes(self._vocabulary)
        self.orders = OrderCache(lambda raw: self.index(raw)[1])
        self.terms = _TermCache(self)

    def chunk(self, raw: str) -> Chunk:
        """Return the analysis of a chunk."""
        chunk = self._chunks.get(raw)
        if chunk is None:
            chunk = self._analyze(raw)
            if is_cacheable(raw):
                cache_put(self._chunks, raw, chunk, max_size=_CACHED_PARTS)
        return chunk

    def matches(self, raw: str, *, term_filter: TermFilter) -> ChunkMatches:
        """Return the tokens of a chunk that the filter accepts."""
        word = raw.strip(_EDGES).lower()
        if _is_plain(word) and not term_filter.accepts(self._vocabulary.terms(word)):
            return ChunkMatches((), 1, 1 + UNIT)
        if not is_cacheable(raw):
            return self._matches_in_long(raw, term_filter=term_filter)
        chunk = self.chunk(raw)
        tokens: list[Token] = []
        if term_filter.accepts(chunk.terms):
            tokens = [token for token in chunk.tokens if term_filter.accepts(token.terms)]
        units = _first_analysis_units(word, raw) + _TOKEN_UNITS * len(tokens)
        return ChunkMatches(tokens, chunk.positions, chunk.positions + units * UNIT)

    def index(self, raw: str) -> tuple[Iterable[str], bytes]:
        """Return the terms and length marks of a chunk, and the order of its words, which is cached."""
        terms, order = self._index(raw)
        self.orders.put(raw, order, is_cacheable=is_cacheable(raw))
        return terms, order

    def _index(self, raw: str) -> tuple[Iterable[str], bytes]:
        """Index a chunk, with a shortcut for plain words."""
        word = raw.strip(_EDGES).lower()
        if _is_plain(word):
            plain = self._vocabulary.terms(word)
            return plain, order_of_word(plain, self.term_bytes)
        if not is_cacheable(raw):
            return self._index_long(raw)
        # Not cached as tokens as well, because indexing needs no tokens.
        chunk = self._analyze(raw)
        order = order_of_tokens(chunk.tokens, chunk.positions, self.term_bytes)
        return (*chunk.terms, *length_marks(chunk.length)), order

    def _analyze(self, raw: str) -> Chunk:
        folded = fold(raw)
        tokens: list[Token] = []
        positions = length = 0
        for segment in segments(folded):
            start, end, kind, form = segment
            if kind == "run" and form.isalnum():
                tokens.append(Token(start, end, self._vocabulary.terms(form), positions, 1, "word"))
                positions += 1
                length += 1
                continue
            part = self._segment(segment)
            tokens.extend([token.moved(start, positions) for token in part.tokens])
            positions += part.positions
            length += part.length
        original = tuple(_with_original_offsets(tokens, raw=raw, folded=folded))
        return make_chunk(original, positions=positions, length=length)

    def _segment(self, segment: Segment) -> Chunk:
        """Analyze one segment; offsets count folded code points."""
        _, _, kind, form = segment
        if kind == "cjk":
            return cjk_chunk(cjk_characters(form))
        if kind == "sign":
            return Chunk((Token(0, len(form), (form,), 0, 1, "word"),), (form,), 1, 1)
        if kind == "url":
            return self._compound(*split_url(form))
        chunk = self._parts.get(form)
        if chunk is None:
            chunk = self._compound(*split_compound(form))
            if is_cacheable(form):
                cache_put(self._parts, form, chunk, max_size=_CACHED_PARTS)
        return chunk

    def _compound(self, parts: Sequence[CompoundPart], positions: int) -> Chunk:
        tokens = tuple(map(self._token, parts))
        return make_chunk(tokens, positions=positions, length=positions)

    def _token(self, part: CompoundPart) -> Token:
        start, end, forms, kind, stemmed, position, width = part
        if stemmed:
            terms = self._vocabulary.terms(forms[0])
        else:
            terms = tuple(literal_term(form) for form in forms)
        return Token(start, end, terms, position, width, kind)

    def _index_long(self, raw: str) -> tuple[list[str], bytes]:
        cjk_runs, others = split_cjk(fold(raw))
        terms: list[str] = []
        orders: list[bytes] = []
        length = 0
        for characters in cjk_runs:
            terms.extend(characters)
            terms.extend(map(add, characters, characters[1:]))
            length += cjk_length(len(characters))
        for segment in segments(others):
            if segment.kind == "run" and is_too_long(segment.form):
                words = [self._vocabulary.terms(word) for word in find_words(segment.form)]
                terms.extend(chain.from_iterable(words))
                orders.extend(order_of_word(each, self.term_bytes) for each in words)
                length += len(words)
                continue
            part = self._segment(segment)
            terms.extend(part.terms)
            orders.append(order_of_tokens(part.tokens, part.positions, self.term_bytes))
            length += part.length
        terms.extend(length_marks(length))
        return terms, b"".join(orders)

    def _matches_in_long(self, raw: str, *, term_filter: TermFilter) -> ChunkMatches:
        folded = fold(raw)
        tokens: list[Token] = []
        positions, units = 0, len(folded) // _CHARS_PER_UNIT
        for segment in segments(folded):
            if segment.kind == "cjk":
                matches = cjk_matches(segment.form, term_filter=term_filter)
            elif segment.kind == "run" and is_too_long(segment.form):
                matches = self._matches_in_words(segment.form, term_filter=term_filter)
            else:
                part = self._segment(segment)
                accepted = [t for t in part.tokens if term_filter.accepts(t.terms)]
                matches = ChunkMatches(accepted, part.positions)
                units += _SEGMENT_UNITS + len(segment.form)
            tokens.extend([token.moved(segment.start, positions) for token in matches.tokens])
            positions += matches.positions
        units += _TOKEN_UNITS * len(tokens)
        original = _with_original_offsets(tokens, raw=raw, folded=folded)
        return ChunkMatches(original, positions, positions + units * UNIT)

    def _matches_in_words(self, form: str, *, term_filter: TermFilter) -> ChunkMatches:
        """Return the accepted words of a run that is too long to be one compound."""
        words = find_words(form)
        terms = {word: self._vocabulary.terms(word) for word in dict.fromkeys(words)}
        accepted = {word for word in terms if term_filter.accepts(terms[word])}
        if not accepted:
            return ChunkMatches((), len(words))
        tokens: list[Token] = []
        at = 0
        for position, word in enumerate(words):
            # Words come in order, and no word is part of an earlier one.
            at = form.index(word, at)
            if word in accepted:
                tokens.append(Token(at, at + len(word), terms[word], position, 1, "word"))
            at += len(word)
        return ChunkMatches(tokens, len(words))


class _TermCache(dict[str, Iterable[str]]):
    """Maps a chunk to its terms. A subscript is much faster than a call, and indexing uses many."""

    def __init__(self, analyzer: ChunkAnalyzer) -> None:
        super().__init__()
        self._analyzer = analyzer

    def __missing__(self, raw: str) -> Iterable[str]:
        terms, _ = self._analyzer.index(raw)
        if is_cacheable(raw):
            cache_put(self, raw, terms, max_size=_CACHED_CHUNKS)
        return terms


class MatchCache(dict[str, "ChunkMatches | int"]):
    """Maps a chunk to its accepted tokens, or to its packed counts if it has none."""

    def __init__(self, analyzer: ChunkAnalyzer, *, term_filter: TermFilter) -> None:
        super().__init__()
        self._analyzer = analyzer
        self._term_filter = term_filter

    def __missing__(self, raw: str) -> ChunkMatches | int:
        matches = self._analyzer.matches(raw, term_filter=self._term_filter)
        value = matches if matches.tokens else matches.packed_counts
        if is_cacheable(raw):
            cache_put(self, raw, value, max_size=_CACHED_MATCHES)
        return value


def is_cacheable(raw: str) -> bool:
    """Return whether a chunk is short enough to occur again."""
    return len(raw) <= _CACHED_CHARS


def _is_plain(word: str) -> bool:
    """Return whether a chunk without its edges is one word in every language."""
    return word.isalnum() and word.isascii() and word != "www"


def _first_analysis_units(word: str, raw: str) -> int:
    """Return the units that the first analysis of a short chunk costs."""
    is_word = word.isalnum() and not CJK_RUN.search(word)
    if is_word and unicodedata.is_normalized("NFKC", word):
        return 1
    return len(raw)


def _with_original_offsets(tokens: list[Token], *, raw: str, folded: str) -> list[Token]:
    if not tokens or raw.isascii():
        return tokens
    offsets = Offsets(raw, folded=folded)
    return [
        token._replace(start=offsets.start(token.start), end=offsets.end(token.end))
        for token in tokens
    ]


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
