"""Compare a misspelled word with candidate words by edit distance.

The caller supplies the candidates, and takes them only from texts that the client may see.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from evidence.search.analysis.folding import fold, strip_marks
from evidence.search.analysis.query_tree import Leaf
from evidence.search.analysis.segmentation import CJK_RUN, TermFilter, is_cjk
from evidence.search.analysis.tokenizer import WorkLimit, find_tokens

_MIN_WORD_CHARS = 4
_MAX_WORD_CHARS = 32
# A shorter word becomes a different word after two edits.
_MIN_CHARS_FOR_TWO_EDITS = 6
_MIN_PREFIX_CHARS = 3
# Prefix length if the first letters are wrong: long enough to match few words.
_EDITED_PREFIX_CHARS = 6
_MIN_RUN_CHARS = 3
_MAX_RUN_CHARS = 16
# Character comparisons per unit of work.
_CHARS_PER_UNIT = 32
# Folded letters: without case and accents.
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u043a\u043b\u043c\u043d\u043e\u043f"
    "\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044a\u044b\u044c\u044d\u044e\u044f",
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba\u03bb\u03bc\u03bd\u03be\u03bf\u03c0"
    "\u03c1\u03c3\u03c4\u03c5\u03c6\u03c7\u03c8\u03c9",
)


def is_correctable_word(leaf: Leaf) -> bool:
    """Return whether a leaf is one word of letters in a script with spaces."""
    form = _form(leaf.text)
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    return (
        plain
        and _MIN_WORD_CHARS <= len(form) <= _MAX_WORD_CHARS
        and form.isalpha()
        and not is_cjk(form)
    )


def candidate_prefixes(leaf: Leaf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes to search for candidates: of the word, longest first, and of its edits.

    The latter are one edit away from the first letters.
    """
    form = _form(leaf.text)
    lengths = (len(form) - 3, len(form) // 2, _MIN_PREFIX_CHARS)
    own = dict.fromkeys(form[: max(_MIN_PREFIX_CHARS, length)] for length in lengths)
    return tuple(own), tuple(_edited_prefixes(form))


def words_with_prefix(
    text: str, prefixes: tuple[str, ...], *, languages: tuple[str, ...], work: WorkLimit
) -> Iterator[str]:
    """Yield the words of a text with one of these prefixes, in lower case and with accents."""
    term_filter = TermFilter(frozenset(), prefixes)
    for token in find_tokens(text, languages=languages, term_filter=term_filter, work=work):
        word = text[token.start : token.end].lower()
        if token.kind == "word" and word.isalpha() and _form(word).startswith(prefixes):
            yield word


def _edited_prefixes(form: str) -> Iterator[str]:
    """Yield the prefixes of a word after one edit of its first letters."""
    alphabet = next((letters for letters in _ALPHABETS if set(form) <= set(letters)), "")
    edited: dict[str, None] = {}
    for at in range(_MIN_PREFIX_CHARS):
        before, letter, after = form[:at], form[at], form[at + 1 :]
        edited |= dict.fromkeys([before + after, before + after[:1] + letter + after[1:]])
        edited |= dict.fromkeys(before + other + after for other in alphabet)
        edited |= dict.fromkeys(before + other + letter + after for other in alphabet)
    original = form[:_MIN_PREFIX_CHARS]
    prefixes = dict.fromkeys(form[:_EDITED_PREFIX_CHARS] for form in edited)
    yield from (prefix for prefix in prefixes if not prefix.startswith(original))


def closest_words(word: str, candidates: Iterable[str], *, limit: int) -> tuple[str, ...]:
    """Return the candidates within one or two edits: nearest first, then most frequent."""
    form = _form(word)
    allowed = 1 + (len(form) >= _MIN_CHARS_FOR_TWO_EDITS)
    counts = Counter(candidates)
    distances = {other: edit_distance(form, _form(other), limit=allowed) for other in counts}
    near = [other for other in counts if 0 < distances[other] <= allowed]
    return tuple(sorted(near, key=lambda w: (distances[w], -counts[w], w))[:limit])


def edit_distance(one: str, other: str, *, limit: int) -> int:
    """Return the Damerau-Levenshtein distance (optimal string alignment), at most `limit` + 1."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        above, row = row, [at]
        for column, target in enumerate(other, 1):
            cost = min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != target))
            swapped = (
                column > 1 and at > 1 and letter == other[column - 2] and one[at - 2] == target
            )
            row.append(min(cost, before[column - 2] + 1) if swapped else cost)
        before = above
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def is_correctable_cjk(leaf: Leaf) -> bool:
    """Return whether a leaf is one CJK run, in which one character can be corrected."""
    plain = not (leaf.phrase or leaf.prefix or leaf.field)
    is_run = CJK_RUN.fullmatch(leaf.text) is not None
    return plain and is_run and _MIN_RUN_CHARS <= len(leaf.text) <= _MAX_RUN_CHARS


def bigrams(leaf: Leaf) -> tuple[Leaf, ...]:
    """Return the bigrams of a run; a text with a similar run contains some of them."""
    text = leaf.text
    return tuple(Leaf(text[at : at + 2], leaf.position + at) for at in range(len(text) - 1))


def similar_runs(text: str, run: str, *, work: WorkLimit) -> Iterator[str]:
    """Yield the runs of a text that differ from `run` by one replaced character."""
    end = work.left * _CHARS_PER_UNIT // len(run)
    work.spend(1 + min(len(text), end) * len(run) // _CHARS_PER_UNIT)
    for match in _one_replaced(run).finditer(text, 0, end):
        similar: str = match.group(1)
        if similar != run and CJK_RUN.fullmatch(similar):
            yield similar


@lru_cache(maxsize=16)
def _one_replaced(run: str) -> re.Pattern[str]:
    patterns = (re.escape(run[:at]) + "." + re.escape(run[at + 1 :]) for at in range(len(run)))
    return re.compile(f"(?=({'|'.join(patterns)}))")


def _form(word: str) -> str:
    return strip_marks(fold(word))
