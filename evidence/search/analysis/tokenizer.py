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

from evidence.search.analysis.chunks import POSITIONS, UNIT, Chunks, HitsByChunk
from evidence.search.analysis.tokens import LONGER, SHORTER, Token, Wanted
from evidence.search.analysis.work_limit import WorkLimit

# A run without white space is analysed in stretches of this many code points, and so is a text: no
# single call into C then keeps other threads waiting for long.
_CHUNK_CHARS = 65_536
_CHUNK = re.compile(rf"\S{{1,{_CHUNK_CHARS}}}")
_SPACE = re.compile(r"\s")

# "1 234,50 €": a no-break space between digits groups them. An invisible joiner, which folding
# removes, takes its place and keeps every offset.
_GROUPING_SPACE = re.compile(r"(?<=[0-9])[\u00a0\u202f\u2009](?=[0-9]{3}(?![0-9]))")
_JOINER = "\u2060"
# How much of what follows decides whether a space groups digits.
_GROUP_CONTEXT = 4

_CACHED_LANGUAGE_SETS = 4
_CACHED_WANTED = 16


def tokens(text: str, *, languages: tuple[str, ...]) -> Iterator[Token]:
    """All tokens of `text`, by start and, from one start, the longest first."""
    chunks, position = _chunks_of(languages), 0
    for offset, block in _blocks(text):
        for found in _CHUNK.finditer(block):
            chunk = chunks.chunk(found.group())
            for token in chunk.tokens:
                yield token.moved(offset + found.start(), position)
            position += chunk.positions


def occurrences(
    text: str,
    *,
    languages: tuple[str, ...],
    wanted: Wanted,
    work: WorkLimit,
    start: int = 0,
) -> Iterator[Token]:
    """Those of the tokens of `text` that have a wanted term, as far as `work` allows.

    With `start`, only from the first white space there, and positions count from that.
    """
    met = _met(languages, wanted)
    space = _SPACE.search(text, start) if start else None
    # Positions and units in one number: nearly all of the time goes into this loop.
    total, most = 0, work.left * UNIT
    try:
        for offset, block in _blocks(text, space.end() if space else start):
            for found in _CHUNK.finditer(block):
                here = met[found.group()]
                if isinstance(here, int):
                    total += here
                else:
                    for token in here.tokens:
                        yield token.moved(offset + found.start(), total & POSITIONS)
                    total += here.counted
                if total > most:
                    return
    finally:
        work.spend(total // UNIT)


def term_frequencies(text: str, *, languages: tuple[str, ...]) -> tuple[dict[str, int], int]:
    """How many tokens have each term, and the length of the text in words.

    Two characters of a script written without spaces count as one word of length.
    """
    terms_of = _chunks_of(languages).terms.__getitem__
    counts: Counter[str] = Counter()
    chunks = 0
    for _, block in _blocks(text):
        written = block.split()
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


def _blocks(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Offset and text of blocks of at most `_CHUNK_CHARS`, cut at white space where there is any."""
    while start < len(text):
        end = start + _CHUNK_CHARS
        block = _digits_joined(text, start, end)
        if end < len(text):
            block = block[: _last_word_start(block)]
        yield start, block
        start += len(block)


def _digits_joined(text: str, start: int, end: int) -> str:
    """`text[start:end]`, in which digits stay together that a no-break space groups."""
    context = max(0, start - 1)
    around = text[context : end + _GROUP_CONTEXT]
    if not around.isascii():
        around = _GROUPING_SPACE.sub(_JOINER, around)
    return around[start - context : end - context]


def _last_word_start(block: str) -> int:
    """Where the last run without white space starts; the end of a block that is one run."""
    if block[-1].isspace():
        return len(block)
    return len(block) - len(block.rsplit(None, 1)[-1]) or len(block)
