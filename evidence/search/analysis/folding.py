"""Normalize text: NFKC, case folding, accent removal, with a map back to original offsets.

`fold` returns the folded form, on which all later steps work. `strip_marks` removes accents in a
separate step because the stemmers need them. `Offsets` maps a folded form to the original text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex

# Zero-width, bidi, soft hyphen, variation selector, tag, tatweel: never part of a word.
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\u0640]+")
_FOREIGN_DIGIT = regex.compile(r"(?V1)[\p{Nd}--[0-9]]")
# Characters that are separate words: ½ after a 2 does not make 21/2. Also the number sign.
_SEPARATE_WORD = regex.compile(r"[\u00bc-\u00be\u2150-\u215f\u2189\u2116]")
_SIGN_VARIANTS = (
    ("\u2019", "'"),
    ("\u02bc", "'"),
    ("\u2010", "-"),
    ("\u2011", "-"),
    ("\u2044", "/"),
)

# In these scripts a mark is an accent or an optional vowel sign. In others (Devanagari, Thai, kana)
# it is a letter and stays.
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

# One starter and its followers: accents, joiners within a cluster, Hangul vowels and finals,
# half-width voicing signs.
_UNIT = regex.compile(
    r"[\s\S][\p{M}\p{Grapheme_Extend}\u200d\u1160-\u11ff\ud7b0-\ud7ff\uff9e\uff9f]*"
)


def fold(text: str) -> str:
    """Return the folded form of `text`. Lengths may change; ASCII keeps its offsets."""
    if text.isascii():
        return text.lower()
    visible = _SEPARATE_WORD.sub(r" \g<0> ", _INVISIBLE.sub("", text))
    folded = _nfkc(_nfkc(visible).casefold())
    for variant, sign in _SIGN_VARIANTS:
        folded = folded.replace(variant, sign)
    return folded if folded.isascii() else _FOREIGN_DIGIT.sub(_ascii_digit, folded)


def strip_marks(word: str) -> str:
    """Remove the accents of a folded word: é becomes e, ø o, ł l; also in Greek and Cyrillic."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    without_marks = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", decomposed))
    return without_marks.translate(_NO_DECOMPOSITION)


def _nfkc(text: str) -> str:
    # The check is several times cheaper than normalizing, and most text passes it.
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def _ascii_digit(match: regex.Match[str]) -> str:
    digit = match.group()
    return str(unicodedata.decimal(digit, digit))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    return fold(character)


class Offsets:
    """Maps offsets of the folded form to offsets of the original text."""

    def __init__(self, original: str, *, folded: str) -> None:
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        if not _has_same_offsets(original, folded=folded):
            self._starts, self._ends = _unit_offsets(original, folded=folded)

    def start(self, index: int) -> int:
        """Return where the original of folded character `index` starts."""
        return index if self._starts is None else self._starts[index]

    def end(self, index: int) -> int:
        """Return where the original of folded character `index - 1` ends."""
        return index if self._starts is None else self._ends[index - 1]


def _has_same_offsets(original: str, *, folded: str) -> bool:
    if len(original) != len(folded):
        return False
    if original == folded or original.lower() == folded:
        return True
    folded_letters = {letter: _folded_character(letter) for letter in set(original)}
    if any(len(letter) != 1 for letter in folded_letters.values()):
        return False
    return "".join([folded_letters[letter] for letter in original]) == folded


def _unit_offsets(original: str, *, folded: str) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    ends: list[int] = []
    folded_units: list[str] = []
    for unit in _UNIT.finditer(original):
        folded_unit = _folded_unit(unit.group())
        folded_units.append(folded_unit)
        starts.extend([unit.start()] * len(folded_unit))
        ends.extend([unit.end()] * len(folded_unit))
    if "".join(folded_units) != folded:
        # Some characters fold differently together than alone. None are known in real text; if one
        # occurs, the whole text is reported as the match, which is coarse but correct.
        return [0] * len(folded), [len(original)] * len(folded)
    return starts, ends


def _folded_unit(unit: str) -> str:
    return _folded_character(unit) if len(unit) == 1 else fold(unit)
