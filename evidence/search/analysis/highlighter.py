"""Passages: the stretches of a text that show why it matches, best first.

Offsets are the truth about a match. The marked form is for reading: where the record itself says
`<mark>`, its bracket is written `&lt;`, so that every tag in it is ours and they are balanced.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from evidence.search.analysis.graphemes import grapheme_ceil, grapheme_floor
from evidence.search.analysis.matcher import Match, Walker, matches_of, wanted_by
from evidence.search.analysis.query_tree import Leaf, Query, pattern
from evidence.search.analysis.tokenizer import occurrences
from evidence.search.analysis.work_limit import WorkLimit

# Around a match that fills the width alone.
_LEAST_CONTEXT = 24
# How far an end of a window looks for the end of a word.
_WORD_END_CHARS = 24

_ELLIPSIS = "\u2026"
_WORD_START = re.compile(r"(?<=\s)\S")
_WORD_END = re.compile(r"(?<=\S)\s")
_OUR_TAG = re.compile(r"<(?=/?mark\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text and the matches in it, all in code points of the text."""

    start: int
    end: int
    marks: tuple[tuple[int, int], ...]


def passages(
    text: str,
    query: Query,
    *,
    languages: tuple[str, ...],
    field: str,
    limit: int = 3,
    width: int = 160,
    work: WorkLimit | None = None,
) -> list[Passage]:
    """Up to `limit` passages of about `width` code points: most query words, density, position.

    `field` is the name under which the query may restrict words to this text. No match, no passage.
    """
    leaves = [leaf for leaf in query.wanted() if leaf.field in (None, field)]
    work = work or WorkLimit()
    matches = matches_of(text, leaves, languages=languages, around=width, work=work)
    chosen: list[Passage] = []
    left = matches
    while left and len(chosen) < limit:
        first, last = _best(left, reach=max(1, width - 2 * _context(width)))
        passage = _passage(text, matches, start=first.start, end=last.end, width=width)
        chosen.append(passage)
        left = [m for m in left if m.end <= passage.start or m.start >= passage.end]
    return chosen


def _context(width: int) -> int:
    return min(_LEAST_CONTEXT, width // 4)


def plain(text: str, passage: Passage) -> str:
    """The words of the record, with an ellipsis where they go on."""
    return _cut(text, passage, text[passage.start : passage.end])


def marked(text: str, passage: Passage) -> str:
    """The same with `<mark>` and `</mark>` around the matches."""
    pieces: list[str] = []
    at = passage.start
    for start, end in passage.marks:
        pieces += [_without_our_tags(text[at:start]), "<mark>"]
        pieces += [_without_our_tags(text[start:end]), "</mark>"]
        at = end
    pieces.append(_without_our_tags(text[at : passage.end]))
    return _cut(text, passage, "".join(pieces))


def _cut(text: str, passage: Passage, shown: str) -> str:
    before = _ELLIPSIS if passage.start > 0 else ""
    after = _ELLIPSIS if passage.end < len(text) else ""
    return f"{before}{shown}{after}"


def _without_our_tags(shown: str) -> str:
    return _OUR_TAG.sub("&lt;", shown)


def _best(matches: Sequence[Match], *, reach: int) -> tuple[Match, Match]:
    """The first and last match of the densest stretch that `reach` code points can show."""
    best: tuple[int, int, int] | None = None
    chosen = (matches[0], matches[0])
    inside: Counter[int] = Counter()
    end = 0
    for begin, first in enumerate(matches):
        while end < len(matches) and (end <= begin or matches[end].end - first.start <= reach):
            inside[matches[end].leaf] += 1
            end += 1
        score = (len(inside), end - begin, -first.start)
        if best is None or score > best:
            best, chosen = score, (first, matches[end - 1])
        inside[first.leaf] -= 1
        if not inside[first.leaf]:
            del inside[first.leaf]
    return chosen


def _passage(text: str, matches: Sequence[Match], *, start: int, end: int, width: int) -> Passage:
    end = min(end, grapheme_floor(text, start + width)) if end - start > width else end
    end = max(end, grapheme_ceil(text, start + 1))
    opening, closing = _window(text, start=start, end=end, width=width)
    shown = [match for match in matches if match.end > opening and match.start < closing]
    return Passage(opening, closing, _marks(text, shown, opening=opening, closing=closing))


def _marks(
    text: str, shown: Sequence[Match], *, opening: int, closing: int
) -> tuple[tuple[int, int], ...]:
    """The matches as marks inside the window: whole graphemes, without overlap."""
    marks: list[tuple[int, int]] = []
    for match in shown:
        start = max(opening, grapheme_floor(text, match.start))
        end = min(closing, grapheme_ceil(text, match.end))
        if marks and start < marks[-1][1]:
            start, end = marks[-1][0], max(end, marks.pop()[1])
        marks.append((start, end))
    return tuple(marks)


def _window(text: str, *, start: int, end: int, width: int) -> tuple[int, int]:
    """`width` code points around a match, with the room that one side lacks given to the other."""
    room = max(width - (end - start), 2 * _context(width))
    before = min(start, max(room // 2, room - (len(text) - end)))
    opening = start - before
    closing = min(len(text), end + room - before)
    return _opening(text, opening, start=start), _closing(text, closing, end=end)


def _opening(text: str, at: int, *, start: int) -> int:
    """The start of a word from `at` on that leaves something before the match."""
    if at == 0:
        return 0
    word = _WORD_START.search(text, at, min(start, at + _WORD_END_CHARS))
    return grapheme_floor(text, word.start() if word else at)


def _closing(text: str, at: int, *, end: int) -> int:
    """The end of a word up to `at` that leaves something behind the match."""
    if at == len(text):
        return at
    spaces = _WORD_END.finditer(text, max(end + 1, at - _WORD_END_CHARS), at + 1)
    ends = [space.start() for space in spaces if text[end : space.start()].strip()]
    return grapheme_ceil(text, ends[-1] if ends else at)


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
