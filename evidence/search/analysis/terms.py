"""Map words to index terms, folded, stemmed and length-limited, and the order of words to bytes.

The order of the words of a text takes one byte per word, to skip texts without a phrase. A text can
only contain the phrase "kind regards" if the byte of a form of "kind" is directly followed by the
byte of a form of "regards". Different words can have the same byte, so `verifier.verify` decides.

A token that needs more than its one byte, such as "e-mail", which is also "email", adds its other
bytes to the end, between wildcards that stand for any neighbor.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

import Stemmer

from evidence.search.analysis.segmentation import Token, fold, is_cjk, strip_marks

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
    """Return one stemming function per known language, each algorithm once, in the given order.

    Regions are ignored ("pt-BR" is "pt"). Words of a language without a stemmer match only in the
    form in which they are written.
    """
    available = set(Stemmer.algorithms())
    names = (_ALGORITHMS.get(_primary_language(language)) for language in languages)
    selected = dict.fromkeys(name for name in names if name is not None and name in available)
    # The cache of the stemmers is off because `Vocabulary` caches terms, including stems.
    return tuple(map(_stemmer, selected))


def _stemmer(algorithm: str) -> Callable[[str], str]:
    stem: Callable[[str], str] = Stemmer.Stemmer(algorithm, 0).stemWord
    return _with_nasal_plurals(stem) if algorithm == "portuguese" else stem


def _with_nasal_plurals(stem: Callable[[str], str]) -> Callable[[str], str]:
    """Give "reunião" and "reuniões" one stem, which Snowball does not: õ marks the plural of ã."""

    def stem_portuguese(word: str) -> str:
        result = stem(word)
        return f"{result[:-1]}\u00e3" if result.endswith("\u00f5") else result

    return stem_portuguese


def _primary_language(language: str) -> str:
    return language.replace("_", "-").split("-", 1)[0].lower()


@cache
def stop_word_lists() -> Mapping[str, Mapping[str, str]]:
    """Return the word lists of each language, whose names and meaning stop_words.toml explains."""
    return tomllib.loads(Path(__file__).with_name("stop_words.toml").read_text(encoding="utf-8"))


@cache
def short_function_words() -> frozenset[str]:
    """Return the function words of all languages that are short enough to be the stem of a name."""
    written = (
        word for lists in stop_word_lists().values() for word in lists.get("words", "").split()
    )
    folded = (strip_marks(fold(word)) for word in written)
    return frozenset(word for word in folded if len(word) <= SHORT_WORD_CHARS)


SHORT_WORD_CHARS: Final = 3

# In code points. At four bytes each, plus field code and tier, a lexeme stays far below the 2,046
# bytes that PostgreSQL allows.
MAX_TERM_CHARS = 64
_LONG_TERM_PREFIX_CHARS = 47
_DIGEST_BYTES = 8

_MAX_STEMS = 8

_CACHED_WORDS = 65_536
_CACHED_WORD_CHARS = 32

_T = TypeVar("_T")


class Vocabulary:
    """Maps words to terms for one set of languages, with a bounded cache."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._stemmers = stemmers(languages)
        self._root_stemmers = stemmers(sorted(languages))
        self._cache: dict[str, tuple[str, ...]] = {}

    def terms(self, word: str) -> tuple[str, ...]:
        """Return the distinct terms of a folded word: the word itself first, then its stems.

        A stem that is a short function word is none: "Théo" is not "the", whatever Spanish says.
        """
        terms = self._cache.get(word)
        if terms is None:
            terms = self._compute_terms(word)
            if len(word) <= _CACHED_WORD_CHARS:
                cache_put(self._cache, word, terms, max_size=_CACHED_WORDS)
        return terms

    def root(self, term: str) -> str:
        """Return the stem of the stem, and so on, in all languages in turn.

        Nearly all terms of one word have the same root, in any order of the languages.
        """
        for _ in range(_MAX_STEMS):
            stemmed = term
            for stem in self._root_stemmers if len(term) > 1 else ():
                stemmed = literal_term(stem(stemmed)) or stemmed
            if stemmed == term:
                break
            term = stemmed
        return term

    def _compute_terms(self, word: str) -> tuple[str, ...]:
        exact = literal_term(word)
        if len(word) < 2 or len(word) > MAX_TERM_CHARS or any(map(str.isdigit, word)):
            return (exact,)
        stems = (literal_term(stem(word)) for stem in self._stemmers)
        kept = (stem for stem in stems if stem and stem not in short_function_words())
        return tuple(dict.fromkeys((exact, *kept)))


def literal_term(form: str) -> str:
    """Return the term of a folded form without stemming.

    A form that is too long becomes its beginning, for prefix queries, and a digest of all of it, so
    that it still matches itself only.
    """
    bare = strip_marks(form)
    if len(bare) <= MAX_TERM_CHARS:
        return bare
    digest = hashlib.blake2b(bare.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return f"{bare[:_LONG_TERM_PREFIX_CHARS]}~{digest.hexdigest()}"


def cache_put(cache: dict[str, _T], key: str, value: _T, *, max_size: int) -> None:
    """Store `value`. A full cache is emptied, which costs less than tracking how it is used."""
    if len(cache) >= max_size:
        cache.clear()
    cache[key] = value


ANY_WORD: Final = 0
_OTHERS: Final = b"\x01"
"""Surrounds the other bytes of a chunk; no stored order contains it."""
_NO_WORD: Final = 2
_FIRST_BYTE: Final = 3
_CACHED_ORDERS: Final = 65_536
_CACHED_LONG_ORDERS: Final = 256
_CACHED_TERMS: Final = 65_536

ANY_ORDER: Final = bytes((ANY_WORD, ANY_WORD))
"""The order of a text that may contain any phrase."""


class TermBytes(dict[str, int]):
    """Maps a term to the byte of its root, or to zero if it has none: CJK text and signs."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, term: str) -> int:
        byte = 0
        if term.isalnum() and not is_cjk(term):
            root = self._vocabulary.root(term).encode("utf-8", "surrogatepass")
            byte = _FIRST_BYTE + crc32(root) % (256 - _FIRST_BYTE)
        cache_put(self, term, byte, max_size=_CACHED_TERMS)
        return byte


class OrderCache(dict[str, bytes]):
    """Maps a chunk to the order of its words; `analyze` computes it."""

    def __init__(self, analyze: Callable[[str], bytes]) -> None:
        super().__init__()
        self._analyze = analyze
        self._long: dict[str, bytes] = {}

    def __missing__(self, raw: str) -> bytes:
        return self._long.get(raw) or self._analyze(raw)

    def put(self, raw: str, order: bytes, *, is_cacheable: bool) -> None:
        """Store an order until the chunk is read again; of long chunks only a few."""
        if is_cacheable:
            cache_put(self, raw, order, max_size=_CACHED_ORDERS)
        else:
            cache_put(self._long, raw, order, max_size=_CACHED_LONG_ORDERS)


def order_of_word(terms: Iterable[str], bytes_of: TermBytes) -> bytes:
    """Return the order of a single word with these terms."""
    return _pack([_NO_WORD], {0: dict.fromkeys(map(bytes_of.__getitem__, terms))}, {})


def order_of_tokens(tokens: Sequence[Token], positions: int, bytes_of: TermBytes) -> bytes:
    """Return the order of the tokens of a chunk with so many positions."""
    words: dict[int, dict[int, None]] = {}
    others: dict[int, None] = {}
    for token in tokens:
        found = dict.fromkeys(map(bytes_of.__getitem__, token.terms))
        is_first = token.width == 1 and token.position < positions
        if is_first and token.position not in words:
            words[token.position] = found
        else:
            others |= found
    return _pack([_NO_WORD] * positions, words, others)


def _pack(order: list[int], words: dict[int, dict[int, None]], others: dict[int, None]) -> bytes:
    for position, found in words.items():
        known = [byte for byte in found if byte]
        if known:
            order[position] = known[0]
            others |= dict.fromkeys(known[1:])
    rest = bytes(byte for byte in others if byte)
    return _OTHERS + rest + _OTHERS + bytes(order) if rest else bytes(order)


def join_orders(orders: Iterable[bytes]) -> bytes:
    """Return the order of a text from those of its chunks."""
    joined = b"".join(orders)
    pieces = joined.split(_OTHERS)
    if len(pieces) == 1:
        return joined
    tail = [_NO_WORD, ANY_WORD]
    for byte in sorted(set(b"".join(pieces[1::2]))):
        tail += byte, ANY_WORD
    return b"".join(pieces[::2]) + bytes(tail)


def join_texts(orders: Iterable[bytes]) -> bytes:
    """Return the order of several texts, whose words are no neighbors."""
    return bytes((_NO_WORD,)).join(orders)
