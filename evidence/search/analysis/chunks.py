"""Chunks: stretches of text without white space, analysed one by one and remembered.

Most chunks are words that were met before, and all of the cost of an analysis is then one look-up.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import add

from evidence.search.analysis.compounds import Piece, is_no_name, pieces, url_pieces
from evidence.search.analysis.folding import Offsets, fold
from evidence.search.analysis.segmentation import (
    DENSE_RUN,
    Segment,
    apart,
    dense_units,
    segments,
    words_of,
)
from evidence.search.analysis.terms import Vocabulary, literal, remember
from evidence.search.analysis.tokens import Chunk, Hits, Token, Wanted, chunk_of, length_marks


def dense_chunk(units: Sequence[str]) -> Chunk:
    """The tokens of a run of characters; offsets count folded code points."""
    found: list[Token] = []
    start = 0
    for place, unit in enumerate(units):
        end = start + len(unit)
        if place + 1 < len(units):
            following = units[place + 1]
            pair = (unit + following,)
            found.append(Token(start, end + len(following), pair, place, 2, "pair"))
        found.append(Token(start, end, (unit,), place, 1, "single"))
        start = end
    return chunk_of(tuple(found), positions=len(units), length=dense_length(units))


def dense_hits(form: str, *, wanted: Wanted) -> Hits:
    """The wanted tokens of a run."""
    units = dense_units(form)
    if not any(term in form for term in wanted.dense):
        return Hits((), len(units))
    if units is form:
        return Hits(sorted(_one_by_one(form, wanted.dense), key=_longest_first), len(units))
    found = dense_chunk(units).tokens
    return Hits([token for token in found if wanted.has(token.terms)], len(units))


def _one_by_one(form: str, terms: Iterable[str]) -> Iterator[Token]:
    """The tokens with these terms in a run without marks, where a character is a position."""
    for term in terms:
        width = len(term)
        at = form.find(term)
        while at >= 0:
            yield Token(at, at + width, (term,), at, width, "single" if width == 1 else "pair")
            at = form.find(term, at + 1)


def _longest_first(token: Token) -> tuple[int, int]:
    return token.start, -token.end


def dense_terms(units: Sequence[str]) -> Iterator[str]:
    """The terms of a run."""
    yield from units
    yield from map(add, units, units[1:])


def dense_length(units: Sequence[str]) -> int:
    """Two characters are about one word."""
    return (len(units) + 1) // 2


def without_dense(folded: str) -> tuple[Sequence[Sequence[str]], str]:
    """The dense runs of a folded text as their characters, and the text without them."""
    return apart(folded) or _apart_with_marks(folded)


def _apart_with_marks(folded: str) -> tuple[list[Sequence[str]], str]:
    runs: list[Sequence[str]] = []
    others: list[str] = []
    reach = 0
    for segment in segments(folded):
        if segment.kind == "dense":
            runs.append(dense_units(segment.form))
            others.append(folded[reach : segment.start])
            reach = segment.end
    others.append(folded[reach:])
    return runs, " ".join(others)


_CACHED_CHARS = 48
_CACHED_CHUNKS = 131_072
_CACHED_PARTS = 32_768
_CACHED_HITS = 16_384

UNIT = 1 << 40
"""A unit of work (`work.WorkLimit`) in a number whose lower bits count positions."""
POSITIONS = UNIT - 1

# What work costs in units: a wanted token with the steps it takes, a segment, and so many characters
# of a run that needs no more than cutting into words.
_TOKEN_UNITS = 4
_SEGMENT_UNITS = 3
_CHARS_A_UNIT = 8

# What stands around words in prose, and nowhere else means anything.
_EDGES = "().,;:!?\"'[]"


class Chunks:
    """Chunks to tokens for one set of languages. Shared by threads: its caches only save work."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._vocabulary = Vocabulary(languages)
        self._known: dict[str, Chunk] = {}
        self._parts: dict[str, Chunk] = {}
        self.terms = _TermsByChunk(self)

    def chunk(self, written: str) -> Chunk:
        """The analysis of a chunk."""
        known = self._known.get(written)
        if known is None:
            known = self._analysed(written)
            if is_memorable(written):
                remember(self._known, written, known, most=_CACHED_PARTS)
        return known

    def hits(self, written: str, *, wanted: Wanted) -> Hits:
        """The tokens of a chunk that have a wanted term."""
        word = written.strip(_EDGES).lower()
        if _is_plain(word) and not wanted.has(self._vocabulary.terms(word)):
            return Hits((), 1, _counted(1, units=1))
        if not is_memorable(written):
            return self._hits_in_long(written, wanted=wanted)
        chunk = self.chunk(written)
        found: list[Token] = []
        if wanted.has(chunk.terms):
            found = [token for token in chunk.tokens if wanted.has(token.terms)]
        units = _units(word, written) + _TOKEN_UNITS * len(found)
        return Hits(found, chunk.positions, _counted(chunk.positions, units=units))

    def terms_once(self, written: str) -> Iterable[str]:
        """The terms and length marks of a chunk, with a short cut for the plainest."""
        word = written.strip(_EDGES).lower()
        if _is_plain(word):
            return self._vocabulary.terms(word)
        if not is_memorable(written):
            return self._terms_of_long(written)
        # Not remembered as tokens too: an index run asks for none.
        chunk = self._analysed(written)
        return (*chunk.terms, *length_marks(chunk.length))

    def _analysed(self, written: str) -> Chunk:
        folded = fold(written)
        found: list[Token] = []
        positions = length = 0
        for segment in segments(folded):
            start, end, kind, form = segment
            if kind == "run" and form.isalnum():
                found.append(Token(start, end, self._vocabulary.terms(form), positions, 1, "word"))
                positions += 1
                length += 1
                continue
            part = self._part(segment)
            found.extend([token.moved(start, positions) for token in part.tokens])
            positions += part.positions
            length += part.length
        placed = tuple(_in_original(found, written=written, folded=folded))
        return chunk_of(placed, positions=positions, length=length)

    def _part(self, segment: Segment) -> Chunk:
        """One segment; its offsets count folded code points."""
        _, _, kind, form = segment
        if kind == "dense":
            return dense_chunk(dense_units(form))
        if kind == "sign":
            return Chunk((Token(0, len(form), (form,), 0, 1, "word"),), (form,), 1, 1)
        if kind == "url":
            return self._named(*url_pieces(form))
        known = self._parts.get(form)
        if known is None:
            known = self._named(*pieces(form))
            if is_memorable(form):
                remember(self._parts, form, known, most=_CACHED_PARTS)
        return known

    def _named(self, found: Sequence[Piece], positions: int) -> Chunk:
        tokens = tuple(map(self._token, found))
        return chunk_of(tokens, positions=positions, length=positions)

    def _token(self, piece: Piece) -> Token:
        start, end, forms, kind, stemmed, position, width = piece
        if stemmed:
            terms = self._vocabulary.terms(forms[0])
        else:
            terms = tuple(literal(form) for form in forms)
        return Token(start, end, terms, position, width, kind)

    def _terms_of_long(self, written: str) -> list[str]:
        runs, others = without_dense(fold(written))
        terms: list[str] = []
        length = 0
        for run in runs:
            terms.extend(dense_terms(run))
            length += dense_length(run)
        for segment in segments(others):
            if segment.kind == "run" and is_no_name(segment.form):
                words = words_of(segment.form)
                terms.extend(chain.from_iterable(map(self._vocabulary.terms, words)))
                length += len(words)
                continue
            part = self._part(segment)
            terms.extend(part.terms)
            length += part.length
        terms.extend(length_marks(length))
        return terms

    def _hits_in_long(self, written: str, *, wanted: Wanted) -> Hits:
        folded = fold(written)
        found: list[Token] = []
        positions, units = 0, len(folded) // _CHARS_A_UNIT
        for segment in segments(folded):
            if segment.kind == "dense":
                hits = dense_hits(segment.form, wanted=wanted)
            elif segment.kind == "run" and is_no_name(segment.form):
                hits = self._hits_in_words(segment.form, wanted=wanted)
            else:
                part = self._part(segment)
                tokens = [token for token in part.tokens if wanted.has(token.terms)]
                hits = Hits(tokens, part.positions)
                units += _SEGMENT_UNITS + len(segment.form)
            found.extend([hit.moved(segment.start, positions) for hit in hits.tokens])
            positions += hits.positions
        units += _TOKEN_UNITS * len(found)
        placed = _in_original(found, written=written, folded=folded)
        return Hits(placed, positions, _counted(positions, units=units))

    def _hits_in_words(self, form: str, *, wanted: Wanted) -> Hits:
        """The wanted words of a run that is too long to be one name."""
        words = words_of(form)
        terms = {word: self._vocabulary.terms(word) for word in dict.fromkeys(words)}
        asked = {word for word in terms if wanted.has(terms[word])}
        if not asked:
            return Hits((), len(words))
        found: list[Token] = []
        at = 0
        for position, word in enumerate(words):
            # Words are found in order, and no word is part of one that was passed over.
            at = form.index(word, at)
            if word in asked:
                found.append(Token(at, at + len(word), terms[word], position, 1, "word"))
            at += len(word)
        return Hits(found, len(words))


class _TermsByChunk(dict[str, Iterable[str]]):
    """The terms of a chunk as a mere subscript, which is what makes indexing fast."""

    def __init__(self, chunks: Chunks) -> None:
        super().__init__()
        self._chunks = chunks

    def __missing__(self, written: str) -> Iterable[str]:
        terms = self._chunks.terms_once(written)
        if is_memorable(written):
            remember(self, written, terms, most=_CACHED_CHUNKS)
        return terms


class HitsByChunk(dict[str, "Hits | int"]):
    """The hits of a chunk as a mere subscript; of one without any, what it counts."""

    def __init__(self, chunks: Chunks, *, wanted: Wanted) -> None:
        super().__init__()
        self._chunks = chunks
        self._wanted = wanted

    def __missing__(self, written: str) -> Hits | int:
        hits = self._chunks.hits(written, wanted=self._wanted)
        found = hits if hits.tokens else hits.counted
        if is_memorable(written):
            remember(self, written, found, most=_CACHED_HITS)
        return found


def is_memorable(written: str) -> bool:
    """Whether a stretch is short enough to come again."""
    return len(written) <= _CACHED_CHARS


def _is_plain(word: str) -> bool:
    """Whether a chunk without its edges is one word, whatever the language."""
    return word.isalnum() and word.isascii() and word != "www"


def _counted(positions: int, *, units: int) -> int:
    return positions + units * UNIT


def _units(word: str, written: str) -> int:
    """What a short chunk costs to analyse when it is met for the first time."""
    is_word = word.isalnum() and not DENSE_RUN.search(word)
    if is_word and unicodedata.is_normalized("NFKC", word):
        return 1
    return len(written)


def _in_original(found: list[Token], *, written: str, folded: str) -> list[Token]:
    if not found or written.isascii():
        return found
    offsets = Offsets(written, folded=folded)
    return [
        token._replace(start=offsets.start(token.start), end=offsets.end(token.end))
        for token in found
    ]
