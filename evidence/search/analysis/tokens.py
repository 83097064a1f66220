"""The values that chunks of text are analysed into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evidence.search.analysis.compounds import PieceKind
from evidence.search.analysis.segmentation import is_dense

TokenKind = PieceKind | Literal["single", "pair"]

# Nearly every chunk is one word long. The others carry these beside their terms, so that the length
# of a text is counted in the same pass as its terms. No term contains a space.
LONGER = " longer"
SHORTER = " shorter"


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


class Chunk(NamedTuple):
    """An analysed stretch; offsets and positions count from its start.

    `terms` are those of all tokens, as often as they occur; `length` is in words.
    """

    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    positions: int
    length: int


class Hits(NamedTuple):
    """The wanted tokens of a chunk, and how many positions the whole chunk takes.

    `counted` is the same number together with the units of work, as `chunks.UNIT` describes.
    """

    tokens: Sequence[Token]
    positions: int
    counted: int = 0


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


def chunk_of(tokens: tuple[Token, ...], *, positions: int, length: int) -> Chunk:
    """A chunk with the terms of its tokens."""
    return Chunk(tokens, tuple(term for token in tokens for term in token.terms), positions, length)


def length_marks(length: int) -> tuple[str, ...]:
    """How a chunk's length differs from one word."""
    return (LONGER,) * (length - 1) if length else (SHORTER,)
