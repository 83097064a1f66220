"""Runs of a script written without spaces: every character, and every two neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import add

from evidence.analyser.analysed import Chunk, Hits, Token, Wanted, chunk_of
from evidence.analyser.words import apart, dense_units, segments


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
