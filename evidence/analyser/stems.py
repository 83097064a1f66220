"""Snowball stemmers by ISO language code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import Stemmer

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
