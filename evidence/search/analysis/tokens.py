"""Value types for tokens and analyzed chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evidence.search.analysis.compounds import PartKind
from evidence.search.analysis.segmentation import is_cjk

TokenKind = PartKind | Literal["unigram", "bigram"]

# Nearly every chunk is one word long. The others carry these marks among their terms, so that one
# pass counts both terms and the length of the text. No term contains a space.
EXTRA_WORD = " longer"
NO_WORD = " shorter"


class Token(NamedTuple):
    """`start` and `end` count code points of the original text; `position` and `width` words."""

    start: int
    end: int
    terms: tuple[str, ...]
    position: int
    width: int
    kind: TokenKind

    def moved(self, chars: int, positions: int) -> Token:
        """Return the token with its offsets and position increased."""
        start, end, terms, position, width, kind = self
        return Token(start + chars, end + chars, terms, position + positions, width, kind)


class Chunk(NamedTuple):
    """An analyzed chunk; offsets and positions count from its start.

    `terms` lists the terms of all tokens, with repetition; `length` is in words.
    """

    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    positions: int
    length: int


class ChunkMatches(NamedTuple):
    """The tokens of a chunk that a filter accepts, and the number of positions in the chunk.

    `packed_counts` combines the positions with units of work, as `chunks.UNIT` describes.
    """

    tokens: Sequence[Token]
    positions: int
    packed_counts: int = 0


@dataclass(frozen=True, slots=True)
class TermFilter:
    """Accepts exact terms, and every term that starts with one of the prefixes.

    CJK text has no prefixes: one character already matches everything that starts with it.
    """

    terms: frozenset[str]
    prefixes: tuple[str, ...] = ()
    cjk: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cjk", tuple(filter(is_cjk, self.terms)))

    def accepts(self, terms: Iterable[str]) -> bool:
        """Return whether the filter accepts any of `terms`."""
        if not self.terms.isdisjoint(terms):
            return True
        return bool(self.prefixes) and any(term.startswith(self.prefixes) for term in terms)


def make_chunk(tokens: tuple[Token, ...], *, positions: int, length: int) -> Chunk:
    """Return a chunk with the terms of its tokens."""
    return Chunk(tokens, tuple(term for token in tokens for term in token.terms), positions, length)


def length_marks(length: int) -> tuple[str, ...]:
    """Return the marks that correct the word count of a chunk, which starts at one."""
    return (EXTRA_WORD,) * (length - 1) if length else (NO_WORD,)
