"""Select and highlight the best passages of a text.

Offsets are authoritative. The marked form is for display: a literal `<mark>` in the record becomes
`&lt;mark>`, so that all tags are ours and balanced.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from evidence.page_cutter import grapheme_ceil, grapheme_floor
from evidence.search.analysis.matcher import PatternMatcher, TextMatch, find_matches, term_filter
from evidence.search.analysis.query import Leaf, Query, compile_leaf
from evidence.search.analysis.segmentation import is_cjk
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens

# Characters around a match that fills the width alone.
_MIN_CONTEXT = 24
# How far to look for the end of a word at an end of the window.
_WORD_END_CHARS = 24

_ELLIPSIS = "\u2026"
_WORD_START = re.compile(r"(?<=\s)\S")
_WORD_END = re.compile(r"(?<=\S)\s")
_MARK_TAG = re.compile(r"<(?=/?mark\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of a text and the matches in it, in code points of the text."""

    start: int
    end: int
    marks: tuple[tuple[int, int], ...]


def best_passages(
    text: str,
    query: Query,
    *,
    languages: tuple[str, ...],
    field: str,
    limit: int = 3,
    width: int = 160,
    work: WorkLimit | None = None,
) -> list[Passage]:
    """Return up to `limit` passages of about `width` code points, or none without a match.

    Passages rank by different query words, then matches, then position. `field` is the name of this
    text, to which the query may restrict words.
    """
    leaves = [leaf for leaf in query.positive_leaves() if leaf.field in (None, field)]
    work = work or WorkLimit()
    matches = find_matches(text, leaves, languages=languages, around=width, work=work)
    selected: list[Passage] = []
    remaining = matches
    while remaining and len(selected) < limit:
        first, last = _densest_range(remaining, max_chars=max(1, width - 2 * _context(width)))
        passage = _passage(text, matches, start=first.start, end=last.end, width=width)
        selected.append(passage)
        remaining = [m for m in remaining if m.end <= passage.start or m.start >= passage.end]
    return selected


def _context(width: int) -> int:
    return min(_MIN_CONTEXT, width // 4)


def excerpt_text(text: str, passage: Passage) -> str:
    """Return the text of a passage, with an ellipsis where the record continues."""
    return _with_ellipses(text, passage, text[passage.start : passage.end])


def excerpt_with_marks(text: str, passage: Passage) -> str:
    """Return the text of a passage with `<mark>` and `</mark>` around the matches."""
    pieces: list[str] = []
    at = passage.start
    for start, end in passage.marks:
        pieces += [_escape_mark_tags(text[at:start]), "<mark>"]
        pieces += [_escape_mark_tags(text[start:end]), "</mark>"]
        at = end
    pieces.append(_escape_mark_tags(text[at : passage.end]))
    return _with_ellipses(text, passage, "".join(pieces))


def _with_ellipses(text: str, passage: Passage, shown: str) -> str:
    before = _ELLIPSIS if passage.start > 0 else ""
    after = _ELLIPSIS if passage.end < len(text) else ""
    return f"{before}{shown}{after}"


def _escape_mark_tags(shown: str) -> str:
    return _MARK_TAG.sub("&lt;", shown)


def _densest_range(matches: Sequence[TextMatch], *, max_chars: int) -> tuple[TextMatch, TextMatch]:
    """Return the first and last match of the best range of at most `max_chars` code points."""
    best_score: tuple[int, int, int] | None = None
    best = (matches[0], matches[0])
    inside: Counter[int] = Counter()
    end = 0
    for begin, first in enumerate(matches):
        while end < len(matches) and (end <= begin or matches[end].end - first.start <= max_chars):
            inside[matches[end].leaf] += 1
            end += 1
        score = (len(inside), end - begin, -first.start)
        if best_score is None or score > best_score:
            best_score, best = score, (first, matches[end - 1])
        inside[first.leaf] -= 1
        if not inside[first.leaf]:
            del inside[first.leaf]
    return best


def _passage(
    text: str, matches: Sequence[TextMatch], *, start: int, end: int, width: int
) -> Passage:
    end = min(end, grapheme_floor(text, start + width)) if end - start > width else end
    end = max(end, grapheme_ceil(text, start + 1))
    opening, closing = _window(text, start=start, end=end, width=width)
    inside = [match for match in matches if match.end > opening and match.start < closing]
    return Passage(opening, closing, _marks(text, inside, opening=opening, closing=closing))


def _marks(
    text: str, matches: Sequence[TextMatch], *, opening: int, closing: int
) -> tuple[tuple[int, int], ...]:
    """Return the matches as marks inside the window: whole graphemes, without overlap."""
    marks: list[tuple[int, int]] = []
    for match in matches:
        start = max(opening, grapheme_floor(text, match.start))
        end = min(closing, grapheme_ceil(text, match.end))
        if marks and start < marks[-1][1]:
            start, end = marks[-1][0], max(end, marks.pop()[1])
        marks.append((start, end))
    return tuple(marks)


def _window(text: str, *, start: int, end: int, width: int) -> tuple[int, int]:
    """Return `width` code points around a match; room unused on one side goes to the other."""
    room = max(width - (end - start), 2 * _context(width))
    before = min(start, max(room // 2, room - (len(text) - end)))
    opening = start - before
    closing = min(len(text), end + room - before)
    return word_start(text, opening, start=start), _window_end(text, closing, end=end)


def word_start(text: str, at: int, *, start: int) -> int:
    """Return the first start of a word from `at` on, at the latest the start of the match.

    In a script without spaces, a word starts anywhere.
    """
    if at == 0 or is_cjk(text[at]):
        return grapheme_floor(text, at)
    word = _WORD_START.search(text, at, start)
    return grapheme_floor(text, word.start() if word else start)


def _window_end(text: str, at: int, *, end: int) -> int:
    """Return the last end of a word up to `at`, behind at least one character after the match."""
    if at == len(text):
        return at
    spaces = _WORD_END.finditer(text, max(end + 1, at - _WORD_END_CHARS), at + 1)
    ends = [space.start() for space in spaces if text[end : space.start()].strip()]
    return grapheme_ceil(text, ends[-1] if ends else at)


_BLOCK_CHARS = 1_024


def find_occurrence(
    text: str, query_text: str, *, languages: tuple[str, ...], occurrence: int = 1
) -> tuple[int, int] | None:
    """Return start and end of the nth occurrence of `query_text` in `text`, counted from 1.

    Words match as a phrase, in any case, accents and inflection. If the phrase does not occur, or not
    within the work limit of one text, the exact characters match in any case, which also finds parts
    of words and signs.
    """
    if occurrence < 1:
        return None
    phrases = _non_overlapping(_find_words(text, query_text, languages=languages))
    first = next(phrases, None)
    if first is None:
        ranges = _find_characters(text, query_text)
        return next(islice(ranges, occurrence - 1, None), None)
    return first if occurrence == 1 else next(islice(phrases, occurrence - 2, None), None)


def count_occurrences(text: str, query_text: str, *, languages: tuple[str, ...]) -> int:
    """Return the number of occurrences that `find_occurrence` can find."""
    phrases = _non_overlapping(_find_words(text, query_text, languages=languages))
    return sum(1 for _ in phrases) or sum(1 for _ in _find_characters(text, query_text))


def _find_words(
    text: str, query_text: str, *, languages: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    pattern = compile_leaf(Leaf(query_text, 0, phrase=True), languages=languages)
    if not pattern.groups:
        return
    matcher = PatternMatcher(pattern)
    work = WorkLimit()
    accepted = term_filter([pattern])
    for token in find_tokens(text, languages=languages, term_filter=accepted, work=work):
        work.spend(matcher.max_steps)
        yield from matcher.feed(token)
        if work.exhausted:
            return


def _non_overlapping(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Drop ranges that overlap the previous one."""
    previous_end = 0
    for start, end in ranges:
        if start >= previous_end:
            yield start, end
            previous_end = end


def _find_characters(text: str, query_text: str) -> Iterator[tuple[int, int]]:
    """Yield where the exact characters of the query occur, in any case.

    Takes linear time; a regular expression could take minutes for a long query of one letter.
    """
    folded_query = query_text.strip().casefold()
    if not folded_query:
        return
    offsets = _FoldedOffsets(text)
    at = offsets.folded.find(folded_query)
    while at >= 0:
        start, end = offsets.original(at), offsets.original(at + len(folded_query))
        if start is None or end is None:  # part of a letter: the s of "\u00df"
            at = offsets.folded.find(folded_query, at + 1)
            continue
        yield start, end
        at = offsets.folded.find(folded_query, at + len(folded_query))


class _FoldedOffsets:
    """Case-folds a text and maps offsets back. Fastest for queries in ascending order."""

    def __init__(self, text: str) -> None:
        self._text = text
        blocks = [
            text[at : at + _BLOCK_CHARS].casefold() for at in range(0, len(text), _BLOCK_CHARS)
        ]
        self.folded = "".join(blocks)
        self._block_starts = list(accumulate(map(len, blocks), initial=0))
        self._block = -1
        self._originals: dict[int, int] = {}

    def original(self, at: int) -> int | None:
        """Return the offset in the text; None in the middle of a letter that folds into several."""
        if len(self.folded) == len(self._text):
            return at
        block = bisect_right(self._block_starts, at) - 1
        if block != self._block:
            start = block * _BLOCK_CHARS
            lengths = map(len, map(str.casefold, self._text[start : start + _BLOCK_CHARS]))
            folded = accumulate(lengths, initial=self._block_starts[block])
            self._block = block
            self._originals = {offset: index for index, offset in enumerate(folded, start)}
        return self._originals.get(at)
