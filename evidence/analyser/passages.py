"""Passages: the stretches of a text that show why it matches, best first.

Offsets are the truth about a match. The marked form is for reading: where the record itself says
`<mark>`, its bracket is written `&lt;`, so that every tag in it is ours and they are balanced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evidence.analyser.graphemes import grapheme_ceil, grapheme_floor
from evidence.analyser.matches import Match, matches_of
from evidence.analyser.queries import Query
from evidence.analyser.work import WorkLimit

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
