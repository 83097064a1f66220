"""Analyze whitespace-delimited chunks of text, with a cache.

Most chunks are words that were analyzed before, so an analysis usually costs one dictionary lookup.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add

from evidence.search.analysis.compounds import CompoundPart, is_too_long, split_compound, split_url
from evidence.search.analysis.folding import Offsets, fold
from evidence.search.analysis.segmentation import (
    CJK_RUN,
    Chunk,
    ChunkMatches,
    Segment,
    TermFilter,
    Token,
    cjk_characters,
    cjk_chunk,
    cjk_length,
    cjk_matches,
    find_words,
    length_marks,
    make_chunk,
    segments,
    split_cjk,
)
from evidence.search.analysis.terms import (
    OrderCache,
    TermBytes,
    Vocabulary,
    cache_put,
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
