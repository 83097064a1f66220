"""Finding a quoted text in a field: the `q` of a field-window."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import regex

from evidence.analyser.matching import Walker, wanted_by
from evidence.analyser.patterns import pattern
from evidence.analyser.queries import Leaf
from evidence.analyser.tokens import occurrences


def find(
    text: str, query_text: str, *, languages: tuple[str, ...], occurrence: int = 1
) -> tuple[int, int] | None:
    """Start and end of the given occurrence, counted from 1, of `query_text` in `text`.

    Its words must follow one another, in any case, accents and inflection. Where they never do, the
    text is searched for the very characters, in any case: that finds parts of words and signs.
    """
    if occurrence < 1:
        return None
    worded = _apart(_worded(text, query_text, languages=languages))
    first = next(worded, None)
    if first is None:
        found = _lettered(text, query_text)
        return next(islice(found, occurrence - 1, None), None)
    return first if occurrence == 1 else next(islice(worded, occurrence - 2, None), None)


def _worded(text: str, query_text: str, *, languages: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    asked = pattern(Leaf(query_text, 0, phrase=True), languages=languages)
    if not asked.groups:
        return
    walker = Walker(asked)
    for token in occurrences(text, languages=languages, wanted=wanted_by([asked])):
        yield from walker.feed(token)


def _apart(found: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Without matches that overlap the one before."""
    reach = 0
    for start, end in found:
        if start >= reach:
            yield start, end
            reach = end


def _lettered(text: str, query_text: str) -> Iterator[tuple[int, int]]:
    wanted = query_text.strip()
    if not wanted:
        return
    literal = regex.compile(regex.escape(wanted), regex.IGNORECASE | regex.FULLCASE)
    for found in literal.finditer(text):
        yield found.span()
