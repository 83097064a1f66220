"""Folding: what makes two spellings of a word the same word.

`fold` makes the *folded form* of a stretch of text (NFKC, case folded, invisible characters gone);
everything after it works on folded forms. `strip_marks` takes accents away and comes later, because
the stemmers want to see them. `Offsets` leads from a folded form back to the original text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex

# Zero-width, bidi, soft hyphen, variation selector, tag, tatweel: never part of what a word says.
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\u0640]+")
_FOREIGN_DIGIT = regex.compile(r"(?V1)[\p{Nd}--[0-9]]")
# Characters that stand for words of their own: ½ after a 2 does not make it 21/2. Also the number sign.
_OWN_WORD = regex.compile(r"[\u00bc-\u00be\u2150-\u215f\u2189\u2116]")
_USUAL_SIGNS = (
    ("\u2019", "'"),
    ("\u02bc", "'"),
    ("\u2010", "-"),
    ("\u2011", "-"),
    ("\u2044", "/"),
)

# In these scripts a mark is an accent or an optional vowel sign. Elsewhere (Devanagari, Thai, kana)
# it is a letter in its own right and stays.
_ACCENTED = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}\p{Arabic}\p{Hebrew}\p{N}])\p{M}+")
_NO_DECOMPOSITION = str.maketrans(
    {
        "\u00e6": "ae",
        "\u00f0": "d",
        "\u00f8": "o",
        "\u00fe": "th",
        "\u0111": "d",
        "\u0127": "h",
        "\u0131": "i",
        "\u0142": "l",
        "\u014b": "n",
        "\u0153": "oe",
        "\u0167": "t",
    }
)

# One starter and what leans on it: accents, joiners that keep a cluster together, Hangul vowels and
# finals, the half-width voicing signs.
_UNIT = regex.compile(
    r"[\s\S][\p{M}\p{Grapheme_Extend}\u200d\u1160-\u11ff\ud7b0-\ud7ff\uff9e\uff9f]*"
)


def fold(text: str) -> str:
    """The folded form of `text`. Lengths may change; ASCII keeps its offsets."""
    if text.isascii():
        return text.lower()
    visible = _OWN_WORD.sub(r" \g<0> ", _INVISIBLE.sub("", text))
    folded = _nfkc(_nfkc(visible).casefold())
    for sign, usual in _USUAL_SIGNS:
        folded = folded.replace(sign, usual)
    return folded if folded.isascii() else _FOREIGN_DIGIT.sub(_ascii_digit, folded)


def strip_marks(word: str) -> str:
    """A folded word without its accents: é becomes e, ø o, ł l, and so in Greek and Cyrillic."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    bare = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", apart))
    return bare.translate(_NO_DECOMPOSITION)


def _nfkc(text: str) -> str:
    # The check is several times cheaper than the work, and most text passes it.
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def _ascii_digit(found: regex.Match[str]) -> str:
    digit = found.group()
    return str(unicodedata.decimal(digit, digit))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return fold(character)


class Offsets:
    """The way back: which original code points a range of the folded form came from."""

    def __init__(self, original: str, *, folded: str) -> None:
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        if not _one_to_one(original, folded=folded):
            self._starts, self._ends = _unit_offsets(original, folded=folded)

    def start(self, index: int) -> int:
        """Where the original of folded character `index` starts."""
        return index if self._starts is None else self._starts[index]

    def end(self, index: int) -> int:
        """Where the original of folded character `index - 1` ends."""
        return index if self._starts is None else self._ends[index - 1]


def _one_to_one(original: str, *, folded: str) -> bool:
    if len(original) != len(folded):
        return False
    # Lower case keeps every place but that of one letter.
    if original == folded or ("\u0130" not in original and original.lower() == folded):
        return True
    letters = {letter: _folded_character(letter) for letter in set(original)}
    if any(len(letter) != 1 for letter in letters.values()):
        return False
    return "".join([letters[letter] for letter in original]) == folded


def _unit_offsets(original: str, *, folded: str) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    ends: list[int] = []
    pieces: list[str] = []
    for unit in _UNIT.finditer(original):
        piece = _folded_unit(unit.group())
        pieces.append(piece)
        starts.extend([unit.start()] * len(piece))
        ends.extend([unit.end()] * len(piece))
    if "".join(pieces) != folded:
        # Characters that fold differently alone than together. None are known in real text; should
        # one turn up, its whole stretch is the evidence, which is coarse and still true.
        return [0] * len(folded), [len(original)] * len(folded)
    return starts, ends


def _folded_unit(unit: str) -> str:
    return _folded_character(unit) if len(unit) == 1 else fold(unit)
