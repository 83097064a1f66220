"""Cutting what REST gave to the bytes that a channel has left, without a second call."""

from collections.abc import Callable
from typing import TypeVar

import regex

from evidence.limits import WINDOW_GRAPHEME_CHARS

Drawn = TypeVar("Drawn")
_CLUSTERS = regex.compile(r"\X")


def longest(
    most: int, *, draw: Callable[[int], Drawn], fits: Callable[[Drawn], bool]
) -> Drawn | None:
    """What `draw` makes of the largest number up to `most` with which it fits, or None. Less is
    never larger, but for the few characters that keep a grapheme whole."""
    least, found = 0, None
    while least <= most:
        middle = (least + most + 1) // 2
        drawn = draw(middle)
        if fits(drawn):
            least, found = middle + 1, drawn
        else:
            most = middle - 1
    return found


def whole(text: str, at: int) -> int:
    """The last place up to `at` where no grapheme is cut, if there is one near."""
    if at >= len(text):
        return len(text)
    begin = max(0, at - WINDOW_GRAPHEME_CHARS)
    ends = (
        cluster.end() for cluster in _CLUSTERS.finditer(text, begin, at + WINDOW_GRAPHEME_CHARS)
    )
    return max((end for end in ends if end <= at), default=at)
