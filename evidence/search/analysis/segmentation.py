"""Segmentation: what in a folded text is a word, a name with parts, or a run without spaces.

Works on folded text only (`folding.fold`). `segments` cuts it into runs; `compounds.pieces` takes
the runs that have inner punctuation apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import regex

Kind = Literal["run", "url", "dense", "sign"]
"""`run`: letters and digits, perhaps joined by inner punctuation. `dense`: a script written without
spaces, or (Hangul) with spaces that do not part the words people look for. `sign`: one emoji."""

# Written out, not asked of the regex library, so that a new Unicode version cannot silently change
# what an index was built with; `re` is also far faster on ranges than on properties.
_DENSE: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"  # Hangul
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b167"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9"
    "\U00016ff0-\U00016ff1\U00020000-\U0003347f"  # Han
)
_LETTER: Final = rf"[[\p{{L}}\p{{N}}]--[{_DENSE}]]"
_BODY: Final = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_DENSE}]]"
_WORD: Final = rf"{_LETTER}{_BODY}*+"
_JOINED: Final = rf"(?:(?:[-._/:@+']|(?<=[0-9]),(?=[0-9])){_WORD})*+"
_URL_REST: Final = rf"(?:{_BODY}|[-._~:/?\#@!$&*+,;=%])"
_SCHEME: Final = rf"(?<!{_BODY})(?:[a-z][a-z0-9+.\-]{{1,11}}://|www\.){_URL_REST}++"
# Possessive, and not begun inside a name: whatever is written, each character is looked at once.
_BARE_HOST: Final = (
    rf"(?<!{_BODY}|[-.@])(?:[a-z0-9\-]++\.)++[a-z]{{2,24}}(?::[0-9]++)?/{_URL_REST}*+"
)
_URL: Final = f"{_SCHEME}|{_BARE_HOST}"
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
DENSE_RUN: Final = re.compile(f"[{_DENSE}]+")

_KINDS: Final[dict[str, Kind]] = {"run": "run", "url": "url", "dense": "dense", "sign": "sign"}

WORD: Final = regex.compile(f"(?V1){_WORD}")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")


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
    linked = "/" in folded or "www." in folded
    pattern = _SEGMENTS_WITH_URLS if linked and "." in folded else _SEGMENTS
    for found in pattern.finditer(folded):
        kind = _KINDS[found.lastgroup or "run"]
        yield Segment(found.start(), found.end(), kind, found.group())


def words_of(folded: str) -> list[str]:
    """The words of a folded run in order. `re` finds those of ASCII in a fraction of the time."""
    return (_ASCII_WORD if folded.isascii() else WORD).findall(folded)


def is_dense(term: str) -> bool:
    """Whether `term` is of a script written without spaces."""
    return DENSE_RUN.match(term) is not None


def dense_units(form: str) -> Sequence[str]:
    """The characters of a dense run, each with the marks that belong to it."""
    return _DENSE_UNITS.findall(form) if _MARK.search(form) else form


def apart(folded: str) -> tuple[list[str], str] | None:
    """The dense runs of a text, and the text without them: `segments` for those who need no order.

    None where marks stand, which may belong to a dense run.
    """
    if _MARK.search(folded):
        return None
    return DENSE_RUN.findall(folded), DENSE_RUN.sub(" ", folded)
