"""Other spellings: which written words a mistyped word may have meant.

Pure comparison of the two words. Which words are compared, and so what may be suggested, is decided
by who asks: only words of texts that they see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evidence.analyser.analysed import Wanted
from evidence.analyser.folding import fold, strip_marks
from evidence.analyser.queries import Leaf
from evidence.analyser.tokens import occurrences
from evidence.analyser.words import is_dense

_SHORTEST = 4
_LONGEST = 32
# A word this short is another word after two changes.
_SHORTEST_WITH_TWO = 6
_LEAST_BEGINNING = 3


def can_be_respelt(leaf: Leaf) -> bool:
    """Whether it is one word of letters, written with spaces around it."""
    form = _form(leaf.text)
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    return plain and _SHORTEST <= len(form) <= _LONGEST and form.isalpha() and not is_dense(form)


def beginnings(leaf: Leaf) -> Iterator[Leaf]:
    """Where to look for what was meant: most of the word first, its half, then its first letters.

    An error in the first three letters is not found.
    """
    form = _form(leaf.text)
    lengths = (len(form) - 3, len(form) // 2, _LEAST_BEGINNING)
    for length in dict.fromkeys(max(_LEAST_BEGINNING, length) for length in lengths):
        yield Leaf(form[:length], leaf.position, prefix=True)


def written_with(text: str, beginning: str, *, languages: tuple[str, ...]) -> Iterator[str]:
    """The words of a text that begin so, in lower case and with their accents."""
    wanted = Wanted(frozenset(), (beginning,))
    for token in occurrences(text, languages=languages, wanted=wanted):
        word = text[token.start : token.end].lower()
        if token.kind == "word" and word.isalpha() and _form(word).startswith(beginning):
            yield word


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


def _form(word: str) -> str:
    return strip_marks(fold(word))
