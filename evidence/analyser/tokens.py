"""Tokens: the terms of a text and where they stand in it.

The only way from text to terms. `tokens` says everything; `term_frequencies` is the same for the
index, where offsets are not wanted; `occurrences` the same for evidence, where few terms are.

A token's terms are its folded form and its stem in each language; two words match when they share a
term. In scripts written without spaces every character is a token, and every two neighbours are one
more: so one character can be asked for, and longer words stay together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from evidence.analyser.analysed import LONGER, SHORTER, Token, Wanted
from evidence.analyser.chunks import Chunks, HitsByChunk

# A run without white space is analysed in stretches of this many code points.
_CHUNK_CHARS = 65_536
_CHUNK = re.compile(rf"\S{{1,{_CHUNK_CHARS}}}")
_BLOCK_CHARS = 262_144
_SPACE = re.compile(r"\s")

# "1 234,50 €": a no-break space between digits groups them. An invisible joiner, which folding
# removes, takes its place and keeps every offset.
_GROUPING_SPACE = re.compile(r"(?<=[0-9])[\u00a0\u202f\u2009](?=[0-9]{3}(?![0-9]))")
_JOINER = "\u2060"

_CACHED_LANGUAGE_SETS = 4
_CACHED_WANTED = 16


def tokens(text: str, *, languages: tuple[str, ...]) -> Iterator[Token]:
    """All tokens of `text`, by start and, from one start, the longest first."""
    chunks, position = _chunks_of(languages), 0
    for found in _CHUNK.finditer(_digits_joined(text)):
        chunk = chunks.chunk(found.group())
        for token in chunk.tokens:
            yield token.moved(found.start(), position)
        position += chunk.positions


def occurrences(
    text: str, *, languages: tuple[str, ...], wanted: Wanted, start: int = 0
) -> Iterator[Token]:
    """Those of the tokens of `text` that have a wanted term.

    With `start`, only from the first white space there, and positions count from that.
    """
    met, position = _met(languages, wanted), 0
    space = _SPACE.search(text, start) if start else None
    for found in _CHUNK.finditer(_digits_joined(text), space.end() if space else start):
        here = met[found.group()]
        if isinstance(here, int):
            position += here
            continue
        for token in here.tokens:
            yield token.moved(found.start(), position)
        position += here.positions


def term_frequencies(text: str, *, languages: tuple[str, ...]) -> tuple[dict[str, int], int]:
    """How many tokens have each term, and the length of the text in words.

    Two characters of a script written without spaces count as one word of length.
    """
    terms_of = _chunks_of(languages).terms.__getitem__
    counts: Counter[str] = Counter()
    chunks = 0
    for block in _blocks(_digits_joined(text)):
        written = _split(block)
        chunks += len(written)
        counts.update(chain.from_iterable(map(terms_of, written)))
    return counts, chunks + counts.pop(LONGER, 0) - counts.pop(SHORTER, 0)


@lru_cache(maxsize=_CACHED_WANTED)
def _met(languages: tuple[str, ...], wanted: Wanted) -> HitsByChunk:
    # One page of results looks for the same terms in many texts.
    return HitsByChunk(_chunks_of(languages), wanted=wanted)


@lru_cache(maxsize=_CACHED_LANGUAGE_SETS)
def _chunks_of(languages: tuple[str, ...]) -> Chunks:
    return Chunks(languages)


def _digits_joined(text: str) -> str:
    return text if text.isascii() else _GROUPING_SPACE.sub(_JOINER, text)


def _blocks(text: str) -> Iterator[str]:
    """`text` in blocks that end at white space, so that a huge text is never held as words."""
    start = 0
    while len(text) - start > _BLOCK_CHARS:
        space = _SPACE.search(text, start + _BLOCK_CHARS)
        if space is None:
            break
        yield text[start : space.start()]
        start = space.end()
    yield text[start:] if start else text


def _split(block: str) -> list[str]:
    if len(block) > _CHUNK_CHARS:
        return _CHUNK.findall(block)
    return block.split()
