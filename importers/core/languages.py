"""Detect the language of texts by their function words."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path

import evidence

MAX_TEXTS = 200
TEXT_MAX_CHARS = 4_000
MIN_WORDS = 8
_WORD = re.compile(r"[^\W\d_]+")
# The data alone: the modules of search load libraries that a sandbox has no memory for.
_DATA = Path(evidence.__file__).parent / "search" / "analysis" / "stop_words.toml"


def detect_language(texts: Iterable[str | None]) -> str:
    """Return the code of a language, such as de, that has most function words, or else nothing.

    Words of several languages do not count. The winner has MIN_WORDS, and three times as many as any
    other language.
    """
    found = Counter[str]()
    languages = _language_by_word()
    for text in islice(filter(None, texts), MAX_TEXTS):
        words = _WORD.findall(_plain(text[:TEXT_MAX_CHARS]))
        found.update(languages[word] for word in words if word in languages)
    (best, count), (_, second) = (*found.most_common(2), ("", 0), ("", 0))[:2]
    return best if count >= max(MIN_WORDS, 3 * second) else ""


@cache
def _language_by_word() -> dict[str, str]:
    data = tomllib.loads(_DATA.read_text())
    words = {code: set(_plain(each.get("words", "")).split()) for code, each in data.items()}
    doubtful = {code: set(_plain(each.get("doubtful", "")).split()) for code, each in data.items()}
    counts = Counter(word for code in data for word in words[code] | doubtful[code])
    return {word: code for code in data for word in words[code] if counts[word] == 1}


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char))
