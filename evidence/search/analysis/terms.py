"""Terms: what a word is looked up by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import Stemmer

from evidence.search.analysis.folding import strip_marks

_ALGORITHMS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


def stemmers(languages: Sequence[str]) -> tuple[Callable[[str], str], ...]:
    """One stemming function per known language, each algorithm once, in the order given.

    A region is ignored ("pt-BR" is "pt"); a language without a stemmer adds nothing, and its words
    are then found in the form in which they were written.
    """
    available = set(Stemmer.algorithms())
    names = (_ALGORITHMS.get(_primary(language)) for language in languages)
    chosen = dict.fromkeys(name for name in names if name is not None and name in available)
    # The stemmers' own cache is off: the analyser keeps the terms of a word, stems included.
    return tuple(map(_stemmer, chosen))


def _stemmer(algorithm: str) -> Callable[[str], str]:
    stem: Callable[[str], str] = Stemmer.Stemmer(algorithm, 0).stemWord
    return _with_nasal_plurals(stem) if algorithm == "portuguese" else stem


def _with_nasal_plurals(stem: Callable[[str], str]) -> Callable[[str], str]:
    """Snowball leaves "reunião" and "reuniões" apart; what ends in õ is the plural of ã."""

    def portuguese(word: str) -> str:
        found = stem(word)
        return f"{found[:-1]}\u00e3" if found.endswith("\u00f5") else found

    return portuguese


def _primary(language: str) -> str:
    return language.replace("_", "-").split("-", 1)[0].lower()


# In code points. Four bytes each, a field code and a tier stay far below the 2,046 bytes that one
# lexeme of a tsvector may have.
TERM_CHARS = 64
_KEPT_CHARS = 47
_DIGEST_BYTES = 8

_CACHED_WORDS = 65_536
_CACHED_WORD_CHARS = 32

_T = TypeVar("_T")


class Vocabulary:
    """Words to terms for one set of languages; remembers the words it met, up to a bound."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._stemmers = stemmers(languages)
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, word: str) -> tuple[str, ...]:
        """The terms of one folded word: as it is written, then its stems, without repetition."""
        known = self._known.get(word)
        if known is None:
            known = self._look_up(word)
            if len(word) <= _CACHED_WORD_CHARS:
                remember(self._known, word, known, most=_CACHED_WORDS)
        return known

    def _look_up(self, word: str) -> tuple[str, ...]:
        written = literal(word)
        if len(word) < 2 or len(word) > TERM_CHARS or any(map(str.isdigit, word)):
            return (written,)
        stems = (literal(stem(word)) for stem in self._stemmers)
        return tuple(dict.fromkeys((written, *filter(None, stems))))


def literal(form: str) -> str:
    """The term of a folded form that is not stemmed.

    One that is too long keeps its beginning, for prefixes, and a digest of all of it, so that the
    whole still matches itself only.
    """
    bare = strip_marks(form)
    if len(bare) <= TERM_CHARS:
        return bare
    digest = hashlib.blake2b(bare.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return f"{bare[:_KEPT_CHARS]}~{digest.hexdigest()}"


def remember(cache: dict[str, _T], key: str, value: _T, *, most: int) -> None:
    """Keep `value`; a full cache starts afresh, which costs less than keeping count of its use."""
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
