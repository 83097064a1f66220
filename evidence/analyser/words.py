"""Segmentation: what in a folded text is a word, a name with parts, or a run without spaces.

Works on folded text only (`folding.fold`). `segments` cuts it into runs; `compounds.pieces` takes
the runs that have inner punctuation apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import regex

Kind = Literal["run", "url", "dense", "sign"]
"""`run`: letters and digits, perhaps joined by inner punctuation. `dense`: a script written without
spaces, or (Hangul) with spaces that do not part the words people look for. `sign`: one emoji."""

_DENSE: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u30fc\u3005-\u3007"
)
_LETTER: Final = rf"[[\p{{L}}\p{{N}}]--[{_DENSE}]]"
_BODY: Final = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_DENSE}]]"
_WORD: Final = rf"{_LETTER}{_BODY}*+"
_JOINED: Final = rf"(?:(?:[-._/:@+']|(?<=[0-9]),(?=[0-9])){_WORD})*+"
_URL: Final = (
    rf"(?<!{_BODY})(?:[a-z][a-z0-9+.\-]{{1,11}}://|www\.)(?:{_BODY}|[-._~:/?\#@!$&*+,;=%])++"
)
_SIGN: Final = (
    r"[\U0001f1e6-\U0001f1ff]{2}|"
    r"[\p{Extended_Pictographic}--[\u0000-\u20ff\U0001f1e6-\U0001f1ff]]"
)

_PLAIN: Final = (
    rf"(?P<dense>[{_DENSE}](?:[{_DENSE}]|\p{{M}})*+)|(?P<run>{_WORD}{_JOINED})|(?P<sign>{_SIGN})"
)
_SEGMENTS: Final = regex.compile(f"(?V1){_PLAIN}")
_SEGMENTS_WITH_URLS: Final = regex.compile(f"(?V1)(?P<url>{_URL})|{_PLAIN}")
_DENSE_UNITS: Final = regex.compile(rf"(?V1)[{_DENSE}]\p{{M}}*+|\p{{M}}++")
_MARK: Final = regex.compile(r"\p{M}")

WORD: Final = regex.compile(f"(?V1){_WORD}")


class Segment(NamedTuple):
    """A stretch of folded text."""

    start: int
    end: int
    kind: Kind
    form: str


def segments(folded: str) -> Iterator[Segment]:
    """The segments of `folded`, in order, without overlap."""
    if folded.isascii() and folded.isalnum():
        yield Segment(0, len(folded), "run", folded)
        return
    pattern = _SEGMENTS_WITH_URLS if "://" in folded or "www." in folded else _SEGMENTS
    for found in pattern.finditer(folded):
        yield Segment(found.start(), found.end(), found.lastgroup, found.group())


def dense_units(form: str) -> list[str]:
    """The characters of a dense run, each with the marks that belong to it."""
    return _DENSE_UNITS.findall(form) if _MARK.search(form) else list(form)
