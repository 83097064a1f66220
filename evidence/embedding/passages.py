"""A text as passages: stretches short enough for one vector to say what they are about."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from evidence.analyser.graphemes import grapheme_floor

WIDTH: Final = 240
"""Code points that a passage has at most: a few sentences, and the snippet of a hit."""
_CLOSING = r"[\"'\u201d\u2019\u00bb)\]]*"
_CLOSING_WIDE = r"[\u300d\u300f\uff09\u201d]*"
_SENTENCE_END = re.compile(
    rf"[.!?\u2026]+{_CLOSING}\s+|[\u3002\uff01\uff1f]+{_CLOSING_WIDE}\s*|\n\s*"
)
_WORD_END = re.compile(r"\s+")


class Stretch(NamedTuple):
    """From ``start`` to ``end`` in code points of the text."""

    start: int
    end: int


def stretches(text: str) -> Iterator[Stretch]:
    """The passages of a text, in order and without overlap; none has white space at its ends.

    Each ends with a sentence if one ends in its second half, else with a word, else before a
    grapheme.
    """
    at = _after_space(text, 0)
    while at < len(text):
        end = len(text) if len(text) - at <= WIDTH else _end(text, at)
        kept = len(text[at:end].rstrip())
        if kept:
            yield Stretch(at, at + kept)
        at = _after_space(text, end)


def _end(text: str, at: int) -> int:
    for ending in (_SENTENCE_END, _WORD_END):
        ends = [found.end() for found in ending.finditer(text, at + WIDTH // 2, at + WIDTH)]
        if ends:
            return ends[-1]
    return max(grapheme_floor(text, at + WIDTH), at + 1)


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
