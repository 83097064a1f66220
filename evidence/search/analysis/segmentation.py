"""Split folded text into words, compounds and CJK runs, and define the tokens made from them.

Input must be folded (`folding.fold`). `segments` returns runs; `compounds.split_compound` splits
runs with inner punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import regex

SegmentKind = Literal["run", "url", "cjk", "sign"]
"""`run`: letters and digits, possibly joined by inner punctuation. `cjk`: a script written without
spaces, or Hangul, where spaces do not separate the words people search for. `sign`: one emoji."""

# Explicit ranges, so that a new Unicode version of the regex library cannot change the analysis of an
# existing index; `re` is also far faster on ranges than on properties.
_CJK: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"  # Hangul
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b167"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9"
    "\U00016ff0-\U00016ff1\U00020000-\U0003347f"  # Han
)
_LETTER: Final = rf"[[\p{{L}}\p{{N}}]--[{_CJK}]]"
_BODY: Final = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_CJK}]]"
_WORD: Final = rf"{_LETTER}{_BODY}*+"
_JOINED: Final = rf"(?:(?:[-._/:@+']|(?<=[0-9]),(?=[0-9])){_WORD})*+"
_URL_REST: Final = rf"(?:{_BODY}|[-._~:/?\#@!$&*+,;=%])"
_SCHEME: Final = rf"(?<!{_BODY})(?:[a-z][a-z0-9+.\-]{{1,11}}://|www\.){_URL_REST}++"
# Possessive, and never starting inside a name, so that matching takes linear time.
_BARE_HOST: Final = (
    rf"(?<!{_BODY}|[-.@])(?:[a-z0-9\-]++\.)++[a-z]{{2,24}}(?::[0-9]++)?/{_URL_REST}*+"
)
_URL: Final = f"{_SCHEME}|{_BARE_HOST}"
_SIGN: Final = (
    r"[\U0001f1e6-\U0001f1ff]{2}|"
    r"[\p{Extended_Pictographic}--[\u0000-\u20ff\U0001f1e6-\U0001f1ff]]"
)

_PLAIN: Final = (
    rf"(?P<cjk>[{_CJK}](?:[{_CJK}]|\p{{M}})*+)|(?P<run>{_WORD}{_JOINED})|(?P<sign>{_SIGN})"
)
_SEGMENTS: Final = regex.compile(f"(?V1){_PLAIN}")
_SEGMENTS_WITH_URLS: Final = regex.compile(f"(?V1)(?P<url>{_URL})|{_PLAIN}")
_CJK_CHARACTER: Final = regex.compile(rf"(?V1)[{_CJK}]\p{{M}}*+|\p{{M}}++")
_MARK: Final = regex.compile(r"\p{M}")
CJK_RUN: Final = re.compile(f"[{_CJK}]+")

_KINDS: Final[dict[str, SegmentKind]] = {
    "run": "run",
    "url": "url",
    "cjk": "cjk",
    "sign": "sign",
}

WORD: Final = regex.compile(f"(?V1){_WORD}")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")


class Segment(NamedTuple):
    """A range of folded text with its kind."""

    start: int
    end: int
    kind: SegmentKind
    form: str


def segments(folded: str) -> Iterator[Segment]:
    """Yield the segments of `folded` in order, without overlap."""
    if folded.isascii() and folded.isalnum():
        yield Segment(0, len(folded), "run", folded)
        return
    may_have_url = "." in folded and ("/" in folded or "www." in folded)
    pattern = _SEGMENTS_WITH_URLS if may_have_url else _SEGMENTS
    for match in pattern.finditer(folded):
        kind = _KINDS[match.lastgroup or "run"]
        yield Segment(match.start(), match.end(), kind, match.group())


def find_words(folded: str) -> list[str]:
    """Return the words of a folded run in order. `re` is much faster than `regex` for ASCII."""
    return (_ASCII_WORD if folded.isascii() else WORD).findall(folded)


def is_cjk(term: str) -> bool:
    """Return whether `term` is in a script written without spaces."""
    return CJK_RUN.match(term) is not None


def cjk_characters(form: str) -> Sequence[str]:
    """Return the characters of a CJK run, each with its combining marks."""
    return _CJK_CHARACTER.findall(form) if _MARK.search(form) else form


def split_cjk(folded: str) -> tuple[Sequence[Sequence[str]], str]:
    """Return the CJK runs of a text as sequences of characters, and the text without them."""
    if not _MARK.search(folded):
        return CJK_RUN.findall(folded), CJK_RUN.sub(" ", folded)
    # A combining mark may belong to a CJK run, so the runs must come from `segments`.
    runs: list[Sequence[str]] = []
    others: list[str] = []
    others_start = 0
    for segment in segments(folded):
        if segment.kind == "cjk":
            runs.append(cjk_characters(segment.form))
            others.append(folded[others_start : segment.start])
            others_start = segment.end
    others.append(folded[others_start:])
    return runs, " ".join(others)


PartKind = Literal["word", "whole", "exact"]
"""`whole`: in a query, its parts match too. `exact`: they do not (12.50 is not 12 and 50)."""
TokenKind = PartKind | Literal["unigram", "bigram"]

# Nearly every chunk is one word long. The others carry these marks among their terms, so that one
# pass counts both terms and the length of the text. No term contains a space.
EXTRA_WORD = " longer"
NO_WORD = " shorter"


class Token(NamedTuple):
    """`start` and `end` count code points of the original text; `position` and `width` words."""

    start: int
    end: int
    terms: tuple[str, ...]
    position: int
    width: int
    kind: TokenKind

    def moved(self, chars: int, positions: int) -> Token:
        """Return the token with its offsets and position increased."""
        start, end, terms, position, width, kind = self
        return Token(start + chars, end + chars, terms, position + positions, width, kind)


class Chunk(NamedTuple):
    """An analyzed chunk; offsets and positions count from its start.

    `terms` lists the terms of all tokens, with repetition; `length` is in words.
    """

    tokens: tuple[Token, ...]
    terms: tuple[str, ...]
    positions: int
    length: int


class ChunkMatches(NamedTuple):
    """The tokens of a chunk that a filter accepts, and the number of positions in the chunk.

    `packed_counts` combines the positions with units of work, as `chunks.UNIT` describes.
    """

    tokens: Sequence[Token]
    positions: int
    packed_counts: int = 0


@dataclass(frozen=True, slots=True)
class TermFilter:
    """Accepts exact terms, and every term that starts with one of the prefixes.

    CJK text has no prefixes: one character already matches everything that starts with it.
    """

    terms: frozenset[str]
    prefixes: tuple[str, ...] = ()
    cjk: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cjk", tuple(filter(is_cjk, self.terms)))

    def accepts(self, terms: Iterable[str]) -> bool:
        """Return whether the filter accepts any of `terms`."""
        if not self.terms.isdisjoint(terms):
            return True
        return bool(self.prefixes) and any(term.startswith(self.prefixes) for term in terms)


def make_chunk(tokens: tuple[Token, ...], *, positions: int, length: int) -> Chunk:
    """Return a chunk with the terms of its tokens."""
    return Chunk(tokens, tuple(term for token in tokens for term in token.terms), positions, length)


def length_marks(length: int) -> tuple[str, ...]:
    """Return the marks that correct the word count of a chunk, which starts at one."""
    return (EXTRA_WORD,) * (length - 1) if length else (NO_WORD,)


def cjk_chunk(characters: Sequence[str]) -> Chunk:
    """Tokenize a CJK run into unigrams and bigrams; offsets count folded code points."""
    tokens: list[Token] = []
    start = 0
    for position, character in enumerate(characters):
        end = start + len(character)
        if position + 1 < len(characters):
            following = characters[position + 1]
            bigram = (character + following,)
            tokens.append(Token(start, end + len(following), bigram, position, 2, "bigram"))
        tokens.append(Token(start, end, (character,), position, 1, "unigram"))
        start = end
    return make_chunk(tuple(tokens), positions=len(characters), length=cjk_length(len(characters)))


def cjk_matches(form: str, *, term_filter: TermFilter) -> ChunkMatches:
    """Return the tokens of a CJK run that the filter accepts."""
    characters = cjk_characters(form)
    if not any(term in form for term in term_filter.cjk):
        return ChunkMatches((), len(characters))
    if characters is form:
        tokens = sorted(_find_terms(form, term_filter.cjk), key=lambda t: (t.start, -t.end))
    else:
        tokens = [t for t in cjk_chunk(characters).tokens if term_filter.accepts(t.terms)]
    return ChunkMatches(tokens, len(characters))


def _find_terms(form: str, terms: Iterable[str]) -> Iterator[Token]:
    """Find terms in a run without combining marks, where each character is one position."""
    for term in terms:
        width = len(term)
        at = form.find(term)
        while at >= 0:
            yield Token(at, at + width, (term,), at, width, "unigram" if width == 1 else "bigram")
            at = form.find(term, at + 1)


def cjk_length(characters: int) -> int:
    """Return the length in words: two CJK characters count as about one word."""
    return (characters + 1) // 2
