"""Chunks: stretches of text without white space, analysed one by one and remembered.

Most chunks are words that were met before, and all of the cost of an analysis is then one look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Literal, NamedTuple

from evidence.analyser.compounds import Piece, PieceKind, pieces, url_pieces
from evidence.analyser.folding import Offsets, fold
from evidence.analyser.terms import Vocabulary, literal, remember
from evidence.analyser.words import Segment, apart, dense_units, is_dense, segments

CACHED_CHARS = 48
_CACHED_CHUNKS = 131_072
_CACHED_PARTS = 32_768
_CACHED_HITS = 16_384

# What stands around words in prose, and nowhere else means anything.
_EDGES = "().,;:!?\"'[]"

TokenKind = PieceKind | Literal["single", "pair"]


class Token(NamedTuple):
    """`start` and `end` count code points of the original text; `position` and `width` words."""

    start: int
    end: int
    terms: tuple[str, ...]
    position: int
    width: int
    kind: TokenKind

    def moved(self, chars: int, positions: int) -> Token:
        """The same token seen from further ahead."""
        start, end, terms, position, width, kind = self
        return Token(start + chars, end + chars, terms, position + positions, width, kind)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The terms that evidence is looked for; a prefix wants every term that starts with it.

    No prefix is of a script written without spaces: there, one character finds all that begins so.
    """

    terms: frozenset[str]
    prefixes: tuple[str, ...] = ()
    dense: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dense", tuple(filter(is_dense, self.terms)))

    def has(self, terms: Iterable[str]) -> bool:
        """Whether any of `terms` is wanted."""
        if not self.terms.isdisjoint(terms):
            return True
        return bool(self.prefixes) and any(term.startswith(self.prefixes) for term in terms)


class Chunk(NamedTuple):
    """An analysed stretch; offsets and positions count from its start.

    `terms` are those of all tokens, as often as they occur; `length` is in words.
    """

    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    positions: int
    length: int


# Nearly every chunk is one word long. The others carry these beside their terms, so that the length
# of a text is counted in the same pass as its terms. No term contains a space.
LONGER = " longer"
SHORTER = " shorter"


class Hits(NamedTuple):
    """The wanted tokens of a chunk, and how many positions the whole chunk takes."""

    tokens: Sequence[Token]
    positions: int


class _TermsByChunk(dict[str, Iterable[str]]):
    """The terms of a chunk as a mere subscript, which is what makes indexing fast."""

    def __init__(self, chunks: Chunks) -> None:
        super().__init__()
        self._chunks = chunks

    def __missing__(self, written: str) -> Iterable[str]:
        # Not remembered as tokens too: an index run asks for none.
        terms = self._chunks.terms_once(written)
        if len(written) <= CACHED_CHARS:
            remember(self, written, terms, most=_CACHED_CHUNKS)
        return terms


class HitsByChunk(dict[str, "Hits | int"]):
    """The hits of a chunk as a mere subscript; a number alone is the positions of one without any."""

    def __init__(self, chunks: Chunks, *, wanted: Wanted) -> None:
        super().__init__()
        self._chunks = chunks
        self._wanted = wanted

    def __missing__(self, written: str) -> Hits | int:
        hits = self._chunks.hits(written, wanted=self._wanted)
        found = hits if hits.tokens else hits.positions
        if len(written) <= CACHED_CHARS:
            remember(self, written, found, most=_CACHED_HITS)
        return found


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
            known = self.analysed(written)
            if len(written) <= CACHED_CHARS:
                remember(self._known, written, known, most=_CACHED_CHUNKS)
        return known

    def hits(self, written: str, *, wanted: Wanted) -> Hits:
        """The tokens of a chunk that have a wanted term."""
        if len(written) > CACHED_CHARS:
            return self._hits_in_long(written, wanted=wanted)
        chunk = self.chunk(written)
        if not wanted.has(chunk.terms):
            return Hits((), chunk.positions)
        return Hits([t for t in chunk.tokens if wanted.has(t.terms)], chunk.positions)

    def analysed(self, written: str) -> Chunk:
        """The same, neither looked up nor remembered."""
        folded = fold(written)
        found: list[Token] = []
        positions = length = 0
        for segment in segments(folded):
            start, end, kind, form = segment
            if kind == "run" and form.isalnum():
                terms = self._vocabulary.terms(form)
                found.append(Token(start, end, terms, positions, 1, "word"))
                positions += 1
                length += 1
                continue
            part = self._part(segment)
            found.extend([token.moved(start, positions) for token in part.tokens])
            positions += part.positions
            length += part.length
        placed = tuple(_in_original(found, written=written, folded=folded))
        return _chunk(placed, positions=positions, length=length)

    def terms_once(self, written: str) -> Iterable[str]:
        """The terms and length marks of a chunk, with a short cut for the plainest."""
        word = written.strip(_EDGES).lower()
        if word.isalnum() and word.isascii() and word != "www":
            return self._vocabulary.terms(word)
        if len(written) > CACHED_CHARS:
            return self._long_terms(written)
        chunk = self.analysed(written)
        return (*chunk.terms, *_length_marks(chunk.length))

    def _part(self, segment: Segment) -> Chunk:
        """One segment; its offsets count folded code points."""
        if segment.kind == "dense":
            return _dense(dense_units(segment.form))
        if segment.kind != "run" or len(segment.form) > CACHED_CHARS:
            return self._analysed_part(segment)
        known = self._parts.get(segment.form)
        if known is None:
            known = self._analysed_part(segment)
            remember(self._parts, segment.form, known, most=_CACHED_PARTS)
        return known

    def _analysed_part(self, segment: Segment) -> Chunk:
        if segment.kind == "sign":
            sign = Token(0, len(segment.form), (segment.form,), 0, 1, "word")
            return _chunk((sign,), positions=1)
        found, positions = (url_pieces if segment.kind == "url" else pieces)(segment.form)
        return _chunk(tuple(map(self._token, found)), positions=positions)

    def _token(self, piece: Piece) -> Token:
        start, end, forms, kind, stemmed, position, width = piece
        if stemmed:
            terms = self._vocabulary.terms(forms[0])
        else:
            terms = tuple(literal(form) for form in forms)
        return Token(start, end, terms, position, width, kind)

    def _long_terms(self, written: str) -> list[str]:
        folded = fold(written)
        runs, others = apart(folded) or _runs_with_marks(folded)
        terms: list[str] = []
        length = 0
        for run in runs:
            terms.extend(run)
            terms.extend(map(add, run, run[1:]))
            length += _dense_length(run)
        for segment in segments(others):
            part = self._part(segment)
            terms.extend(part.terms)
            length += part.length
        terms.extend(_length_marks(length))
        return terms

    def _hits_in_long(self, written: str, *, wanted: Wanted) -> Hits:
        folded = fold(written)
        found: list[Token] = []
        positions = 0
        for segment in segments(folded):
            if segment.kind == "dense":
                hits, width = _dense_hits(segment.form, wanted=wanted)
            else:
                part = self._part(segment)
                hits, width = part.tokens, part.positions
            found.extend(
                hit.moved(segment.start, positions) for hit in hits if wanted.has(hit.terms)
            )
            positions += width
        return Hits(_in_original(found, written=written, folded=folded), positions)


def _runs_with_marks(folded: str) -> tuple[list[Sequence[str]], str]:
    """The dense runs as their units, and the text without them."""
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


def _dense_hits(form: str, *, wanted: Wanted) -> tuple[Sequence[Token], int]:
    units = dense_units(form)
    if not any(term in form for term in wanted.dense):
        return (), len(units)
    return _dense(units).tokens, len(units)


def _chunk(tokens: tuple[Token, ...], *, positions: int, length: int | None = None) -> Chunk:
    terms = tuple(term for token in tokens for term in token.terms)
    return Chunk(tokens, terms, positions, positions if length is None else length)


def _dense(units: Sequence[str]) -> Chunk:
    """Every two neighbours, and every character; offsets count folded code points."""
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
    return _chunk(tuple(found), positions=len(units), length=_dense_length(units))


def _dense_length(units: Sequence[str]) -> int:
    return (len(units) + 1) // 2


def _length_marks(length: int) -> tuple[str, ...]:
    return (LONGER,) * (length - 1) if length else (SHORTER,)


def _in_original(found: list[Token], *, written: str, folded: str) -> list[Token]:
    if not found or written.isascii():
        return found
    offsets = Offsets(written, folded=folded)
    return [
        token._replace(start=offsets.start(token.start), end=offsets.end(token.end))
        for token in found
    ]
