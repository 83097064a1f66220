"""Other spellings: which written words a mistyped word may have meant.

Pure comparison of the two words. Which words are compared, and so what may be suggested, is decided
by who asks: only words of texts that they see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from evidence.search.analysis.folding import fold, strip_marks
from evidence.search.analysis.query_tree import Leaf
from evidence.search.analysis.segmentation import DENSE_RUN, is_dense
from evidence.search.analysis.tokenizer import occurrences
from evidence.search.analysis.tokens import Wanted
from evidence.search.analysis.work_limit import WorkLimit

_SHORTEST = 4
_LONGEST = 32
# A word this short is another word after two changes.
_SHORTEST_WITH_TWO = 6
_LEAST_BEGINNING = 3
# What is looked for when the first letters are wrong: long enough to be few words.
_CHANGED_BEGINNING = 6
_SHORTEST_RUN = 3
_LONGEST_RUN = 16
# A unit of work is so many comparisons of a character with a place of a run.
_CHARS_A_UNIT = 32
# As words are folded: without case and accents.
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u043a\u043b\u043c\u043d\u043e\u043f"
    "\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f",
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf\u03c0"
    "\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9",
)


def can_be_respelt(leaf: Leaf) -> bool:
    """Whether it is one word of letters, written with spaces around it."""
    form = _form(leaf.text)
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    return plain and _SHORTEST <= len(form) <= _LONGEST and form.isalpha() and not is_dense(form)


def beginnings(leaf: Leaf) -> Iterator[tuple[str, ...]]:
    """Where to look for what was meant: most of the word first, its half, then its first letters;
    at last whatever is one change of those away."""
    form = _form(leaf.text)
    lengths = (len(form) - 3, len(form) // 2, _LEAST_BEGINNING)
    for length in dict.fromkeys(max(_LEAST_BEGINNING, length) for length in lengths):
        yield (form[:length],)
    others = tuple(_changed(form))
    if others:
        yield others


def written_with(
    text: str, begin: tuple[str, ...], *, languages: tuple[str, ...], work: WorkLimit
) -> Iterator[str]:
    """The words of a text that begin in one of these ways, in lower case and with their accents."""
    wanted = Wanted(frozenset(), begin)
    for token in occurrences(text, languages=languages, wanted=wanted, work=work):
        word = text[token.start : token.end].lower()
        if token.kind == "word" and word.isalpha() and _form(word).startswith(begin):
            yield word


def _changed(form: str) -> Iterator[str]:
    """The beginnings with which a word may have been meant whose first letters are wrong."""
    alphabet = next((each for each in _ALPHABETS if set(form) <= set(each)), "")
    found: dict[str, None] = {}
    for at in range(_LEAST_BEGINNING):
        before, letter, after = form[:at], form[at], form[at + 1 :]
        found |= dict.fromkeys([before + after, before + after[:1] + letter + after[1:]])
        found |= dict.fromkeys(before + other + after for other in alphabet)
        found |= dict.fromkeys(before + other + letter + after for other in alphabet)
    known = form[:_LEAST_BEGINNING]
    short = dict.fromkeys(other[:_CHANGED_BEGINNING] for other in found)
    yield from (other for other in short if not other.startswith(known))


def nearest(written: str, words: Iterable[str], *, most: int) -> tuple[str, ...]:
    """The words that are few changes away: the nearest first, of those the most frequent."""
    form = _form(written)
    allowed = 1 + (len(form) >= _SHORTEST_WITH_TWO)
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    far = {word: changes(form, _form(word), most=allowed) for word in counts}
    near = [word for word in counts if 0 < far[word] <= allowed]
    return tuple(sorted(near, key=lambda word: (far[word], -counts[word], word))[:most])


def changes(one: str, other: str, *, most: int) -> int:
    """How many letters are left out, put in, replaced or swapped with the next; up to `most` + 1."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        above, row = row, [at]
        for place, its in enumerate(other, 1):
            cost = min(above[place] + 1, row[-1] + 1, above[place - 1] + (letter != its))
            swapped = place > 1 and at > 1 and letter == other[place - 2] and one[at - 2] == its
            row.append(min(cost, before[place - 2] + 1) if swapped else cost)
        before = above
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


# Runs without spaces


def is_respelt_run(leaf: Leaf) -> bool:
    """Whether it is one run of a script without spaces, in which one character may be wrong."""
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    whole = DENSE_RUN.fullmatch(leaf.text) is not None
    return plain and whole and _SHORTEST_RUN <= len(leaf.text) <= _LONGEST_RUN


def neighbours(leaf: Leaf) -> tuple[Leaf, ...]:
    """The pairs of characters of a run: a text that has most of it has some of them."""
    text = leaf.text
    return tuple(Leaf(text[at : at + 2], leaf.position + at) for at in range(len(text) - 1))


def written_like(text: str, run: str, *, work: WorkLimit) -> Iterator[str]:
    """The stretches of a text that differ from a run by one character, replaced by another."""
    reach = work.left * _CHARS_A_UNIT // len(run)
    work.spend(1 + min(len(text), reach) * len(run) // _CHARS_A_UNIT)
    for found in _but_one(run).finditer(text, 0, reach):
        stretch: str = found.group(1)
        if stretch != run and DENSE_RUN.fullmatch(stretch):
            yield stretch


@lru_cache(maxsize=16)
def _but_one(run: str) -> re.Pattern[str]:
    ways = (re.escape(run[:at]) + "." + re.escape(run[at + 1 :]) for at in range(len(run)))
    return re.compile(f"(?=({'|'.join(ways)}))")


def _form(word: str) -> str:
    return strip_marks(fold(word))
