"""Function words: what a sentence is held together by, and what a query can do without.

Fixed lists and no counting of stored texts: how often a word occurs would tell a narrow grant about
what it hides. The data is in `function_words.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evidence.analyser.folding import fold, strip_marks

_DATA = Path(__file__).with_name("function_words.toml")
_EDGES = "().,;:!?\u00bf\u00a1\"'[]\u2026\u00ab\u00bb\u201e\u201c\u201d\u2018\u2019"
_JOINTS = re.compile("['\u2019\\-\u2010]")
# People ask in it whatever the language of their records.
_ALWAYS = "en"
_KANA = re.compile("[\u3041-\u30fa]")


@dataclass(frozen=True, slots=True)
class _Language:
    words: frozenset[str]
    doubtful: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]

    def among(self, forms: frozenset[str]) -> frozenset[str]:
        """Those of the words of a query that are function words of this language."""
        sure = forms & self.words
        return sure | (forms & self.doubtful) if sure else sure

    def core(self, written: str) -> tuple[int, int] | None:
        """Where the one word is that apostrophes and hyphens join to function words."""
        pieces = list(_pieces(written))
        while len(pieces) > 1 and pieces[0][2] in self.before:
            del pieces[0]
        while len(pieces) > 1 and pieces[-1][2] in self.after:
            del pieces[-1]
        return pieces[0][:2] if len(pieces) == 1 else None


class FunctionWords:
    """The function words of one query, given all its words and the languages of its readers."""

    def __init__(self, words: Collection[str], *, languages: Collection[str]) -> None:
        spoken = {language.replace("_", "-").split("-")[0].lower() for language in languages}
        known = _languages()
        self._languages = [known[name] for name in sorted(spoken | {_ALWAYS}) if name in known]
        forms = frozenset(map(_form, words))
        self._forms = frozenset[str]().union(*(each.among(forms) for each in self._languages))

    def has(self, word: str) -> bool:
        return _form(word) in self._forms

    def core(self, word: str) -> tuple[int, int]:
        """The part of a word that is left without what an apostrophe or hyphen joins to it."""
        if not _JOINTS.search(word):
            return 0, len(word)
        found = (each.core(word) for each in self._languages)
        return next((core for core in found if core and core != (0, len(word))), (0, len(word)))


def content_of_run(run: str) -> Iterator[tuple[int, int]]:
    """The stretches of a run without spaces that function words leave; all of it if none is left."""
    cut = _cuts("ja" if _KANA.search(run) else "zh")
    kept: list[tuple[int, int]] = []
    reach = 0
    for found in (*cut.finditer(run), None):
        start, end = found.span() if found else (len(run), len(run))
        if start > reach and not (start - reach == 1 and _KANA.match(run, reach)):
            kept.append((reach, start))
        reach = end
    yield from kept or [(0, len(run))]


def _pieces(written: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for joint in (*_JOINTS.finditer(written), None):
        end = joint.start() if joint else len(written)
        yield start, end, _form(written[start:end])
        start = joint.end() if joint else end


def _form(word: str) -> str:
    return strip_marks(fold(word.strip(_EDGES)))


@cache
def _languages() -> dict[str, _Language]:
    return {
        name: _language(entry)
        for name, entry in tomllib.loads(_DATA.read_text(encoding="utf-8")).items()
        if "words" in entry
    }


def _language(entry: dict[str, str]) -> _Language:
    doubtful, before, after = (
        frozenset(entry.get(name, "").split()) for name in ("doubtful", "before", "after")
    )
    return _Language(frozenset(entry["words"].split()) - doubtful, doubtful, before, after)


@cache
def _cuts(language: str) -> re.Pattern[str]:
    """Words of several characters anywhere; particles where they follow Han, katakana or a word."""
    entry = tomllib.loads(_DATA.read_text(encoding="utf-8"))[language]
    words = sorted(entry["words_in_runs"].split(), key=len, reverse=True)
    particles = "".join(entry.get("particles", "").split())
    longer = "|".join(map(re.escape, words))
    if not particles:
        return re.compile(f"(?:{longer})+")
    follows = "(?<=[\u30a1-\u30ff\u3400-\u9fff\u3005])"
    rest = f"(?:{longer}|[{particles}])*"
    return re.compile(f"(?:{longer}){rest}|{follows}[{particles}]{rest}")
