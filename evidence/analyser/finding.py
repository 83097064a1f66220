"""Finding a quoted text in a field: the `q` of a field-window."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice

from evidence.analyser.matching import Walker, wanted_by
from evidence.analyser.patterns import pattern
from evidence.analyser.queries import Leaf
from evidence.analyser.tokens import occurrences
from evidence.analyser.work import WorkLimit

_BLOCK_CHARS = 1_024


def find(
    text: str, query_text: str, *, languages: tuple[str, ...], occurrence: int = 1
) -> tuple[int, int] | None:
    """Start and end of the given occurrence, counted from 1, of `query_text` in `text`.

    Its words must follow one another, in any case, accents and inflection. Where they never do, the
    text is searched for the very characters, in any case: that finds parts of words and signs. So it
    is where words have not been found within the work limit of one text.
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
    work = WorkLimit()
    wanted = wanted_by([asked])
    for token in occurrences(text, languages=languages, wanted=wanted, work=work):
        work.spend(walker.most_steps)
        yield from walker.feed(token)
        if work.exhausted:
            return


def _apart(found: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Without matches that overlap the one before."""
    reach = 0
    for start, end in found:
        if start >= reach:
            yield start, end
            reach = end


def _lettered(text: str, query_text: str) -> Iterator[tuple[int, int]]:
    """Where the characters of the query stand, in any case. Linear in the text, unlike a regular
    expression: a long query of one repeated letter would keep one busy for minutes."""
    wanted = query_text.strip().casefold()
    if not wanted:
        return
    offsets = _FoldedOffsets(text)
    at = offsets.folded.find(wanted)
    while at >= 0:
        start, end = offsets.original(at), offsets.original(at + len(wanted))
        if start is None or end is None:  # half of a letter: the s of "\u00df"
            at = offsets.folded.find(wanted, at + 1)
            continue
        yield start, end
        at = offsets.folded.find(wanted, at + len(wanted))


class _FoldedOffsets:
    """A text in folded case, and the way back to its own offsets. Ask in ascending order."""

    def __init__(self, text: str) -> None:
        self._text = text
        blocks = [
            text[at : at + _BLOCK_CHARS].casefold() for at in range(0, len(text), _BLOCK_CHARS)
        ]
        self.folded = "".join(blocks)
        self._block_starts = list(accumulate(map(len, blocks), initial=0))
        self._block = -1
        self._places: dict[int, int] = {}

    def original(self, at: int) -> int | None:
        """The offset in the text; None in the middle of a letter that folds into several."""
        if len(self.folded) == len(self._text):
            return at
        block = bisect_right(self._block_starts, at) - 1
        if block != self._block:
            start = block * _BLOCK_CHARS
            lengths = map(len, map(str.casefold, self._text[start : start + _BLOCK_CHARS]))
            folded = accumulate(lengths, initial=self._block_starts[block])
            self._block = block
            self._places = {place: number for number, place in enumerate(folded, start)}
        return self._places.get(at)
