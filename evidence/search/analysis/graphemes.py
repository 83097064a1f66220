"""Move an offset to a grapheme cluster boundary."""

from __future__ import annotations

import regex

_GRAPHEME = regex.compile(r"\X")
_OTHER = regex.compile(r"\p{Grapheme_Cluster_Break=Other}")

# Far enough back for the start of any real cluster; only absurd ones and rows of flags are longer.
_LOOK_BACK = 128


def grapheme_floor(text: str, i: int, limit: int = 32) -> int:
    """Return the last grapheme boundary at or before `i`, or `i` if none is within `limit`."""
    before, _ = _boundaries(text, i, limit)
    return before


def grapheme_ceil(text: str, i: int, limit: int = 32) -> int:
    """Return the first grapheme boundary at or after `i`, or `i` if none is within `limit`."""
    _, after = _boundaries(text, i, limit)
    return after


def _boundaries(text: str, i: int, limit: int) -> tuple[int, int]:
    if i <= 0 or i >= len(text):
        inside = min(max(i, 0), len(text))
        return inside, inside
    if _is_separate(text[i - 1]) and _is_separate(text[i]):
        return i, i
    start = _certain_boundary(text, i)
    # A slice, because in a row of flags the library looks back to the start of its input.
    for cluster in _GRAPHEME.finditer(text[start : i + limit + 1]):
        first, last = cluster.start() + start, cluster.end() + start
        if last == i:
            return i, i
        if last > i:
            return (first if i - first <= limit else i), (last if last - i <= limit else i)
    return i, i


def _certain_boundary(text: str, i: int) -> int:
    """Return a boundary before `i` from which to iterate over clusters."""
    furthest = max(0, i - _LOOK_BACK)
    for at in range(i - 1, furthest, -1):
        if _is_separate(text[at - 1]) and _is_separate(text[at]):
            return at
    return furthest


def _is_separate(character: str) -> bool:
    """Return whether the character never joins others like it: letters, ideographs, punctuation."""
    return " " <= character <= "~" or _OTHER.match(character) is not None
