"""Terms: what a word is looked up by."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from evidence.analyser.folding import strip_marks
from evidence.analyser.stems import stemmers

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
