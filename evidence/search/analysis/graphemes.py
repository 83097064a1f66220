"""Where a text may be cut without taking a character apart."""

from __future__ import annotations

import regex

_GRAPHEME = regex.compile(r"\X")
_OTHER = regex.compile(r"\p{Grapheme_Cluster_Break=Other}")

# Far enough back to see the start of all but absurd clusters and of rows of flags.
_LOOK_BACK = 128


def grapheme_floor(text: str, i: int, limit: int = 32) -> int:
    """The last grapheme boundary at or before `i`; `i` itself where none is within `limit`."""
    before, _ = _boundaries(text, i, limit)
    return before


def grapheme_ceil(text: str, i: int, limit: int = 32) -> int:
    """The first grapheme boundary at or after `i`; `i` itself where none is within `limit`."""
    _, after = _boundaries(text, i, limit)
    return after


def _boundaries(text: str, i: int, limit: int) -> tuple[int, int]:
    if i <= 0 or i >= len(text):
        inside = min(max(i, 0), len(text))
        return inside, inside
    if _alone(text[i - 1]) and _alone(text[i]):
        return i, i
    start = _sure_boundary(text, i)
    # On a slice: in a row of flags the library looks back to the very start of what it is given.
    for cluster in _GRAPHEME.finditer(text[start : i + limit + 1]):
        first, last = cluster.start() + start, cluster.end() + start
        if last == i:
            return i, i
        if last > i:
            return (first if i - first <= limit else i), (last if last - i <= limit else i)
    return i, i


def _sure_boundary(text: str, i: int) -> int:
    """A boundary before `i` from which clusters can be counted."""
    furthest = max(0, i - _LOOK_BACK)
    for at in range(i - 1, furthest, -1):
        if _alone(text[at - 1]) and _alone(text[at]):
            return at
    return furthest


def _alone(character: str) -> bool:
    """Whether it never joins with another of its kind: letters, ideographs, punctuation."""
    return " " <= character <= "~" or _OTHER.match(character) is not None
