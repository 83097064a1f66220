"""Normalize text and split it into words, compounds, numbers, addresses, dates and CJK runs, with offsets.

Text is folded first: NFKC, case folding and the removal of accents, with a map back to original offsets.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

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


_GROUPED = re.compile(r"[0-9]{1,3}(?:([.,'])[0-9]{3})(?:\1[0-9]{3})*")
_YEAR_FIRST = re.compile(r"([0-9]{4})([-./])([0-9]{1,2})\2([0-9]{1,2})")
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-./])([0-9]{1,2})\2([0-9]{4})")
_MONTHS = 12
_DAYS = 31


def normalize_number(written: str) -> tuple[str, ...]:
    """Return the plain spellings of digits separated by dots, commas or apostrophes.

    Empty if they are not a number but a date, an address or a version.
    """
    grouped = _GROUPED.fullmatch(written)
    separators = [c for c in written if not c.isdigit()]
    if grouped and len(separators) > 1:
        return (_digits(written),)
    if grouped:
        decimal = () if separators[0] == "'" else (_decimal(written, separators[0]),)
        return (_digits(written), *decimal)
    point = separators[-1]
    whole = written[: written.rindex(point)]
    if point == "'" or (len(separators) > 1 and not _has_other_group_separator(whole, point)):
        return ()
    return (_decimal(written, point),)


def integer_part_length(written: str) -> int:
    """Return the length of the integer part; the whole length without a decimal separator."""
    if _GROUPED.fullmatch(written):
        return len(written)
    return max(written.rfind("."), written.rfind(","))


def normalize_date(written: str) -> tuple[str, ...]:
    """Return the possible ISO spellings of a numeric date; empty if `written` is not a date."""
    if first := _YEAR_FIRST.fullmatch(written):
        year, _, month, day = first.groups()
        return _valid_dates((year, month, day))
    if last := _YEAR_LAST.fullmatch(written):
        one, separator, two, year = last.groups()
        # Dotted dates put the day first everywhere; with a slash or hyphen it depends on the writer.
        month_first = () if separator == "." else ((year, one, two),)
        return _valid_dates((year, two, one), *month_first)
    return ()


def _has_other_group_separator(whole: str, point: str) -> bool:
    return point not in whole and _GROUPED.fullmatch(whole) is not None


def _digits(written: str) -> str:
    return "".join(c for c in written if c.isdigit())


def _decimal(written: str, point: str) -> str:
    whole, _, fraction = written.rpartition(point)
    fraction = fraction.rstrip("0")
    return f"{_digits(whole)}.{fraction}" if fraction else _digits(whole)


def _valid_dates(*candidates: tuple[str, str, str]) -> tuple[str, ...]:
    days = (
        f"{year}-{int(month):02}-{int(day):02}"
        for year, month, day in candidates
        if 1 <= int(month) <= _MONTHS and 1 <= int(day) <= _DAYS
    )
    return tuple(dict.fromkeys(days))


_MAX_COMPOUND_CHARS = 256

# A longer part of a URL is a tracking token and matches only as part of the whole URL.
_MAX_URL_PART_CHARS = 64

_AMOUNT = re.compile(r"([^\W\d_]{1,4})?([0-9]+(?:[.,'][0-9]+)+)([^\W\d_]{1,4})?")
# Fractions of a second and time zones are not indexed.
_TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})t([0-9]{2}(?::[0-9]{2})+)(?:[.z+-].*)?")
_CLOCK = re.compile(r"[0-9]+(?::[0-9]+)+")
_RANGE = re.compile(r"[0-9]+[:.,/][0-9:.,/]*(?:-[0-9]+[:.,/][0-9:.,/]*)+")
_MARKS = re.compile(r"[:@+]")
_BETWEEN_MARKS = re.compile(r"[^:@+]+")
_BETWEEN_SLASHES = re.compile(r"[^/]+")
_BETWEEN_HYPHENS = re.compile(r"[^-]+")
_LOCAL_START = re.compile(r"[:/]")
_DOMAIN_END = re.compile(r"[:/+'_]")
_DIGIT = re.compile(r"\d")
_LETTER_IN_RUN = re.compile(r"[^\W\d_]")
_URL_PREFIX = re.compile(r"^(?:[a-z][a-z0-9+.\-]*://)?(?:www\.)*")
_HOST_END = re.compile(r"[/?#:]")


class CompoundPart(NamedTuple):
    """A searchable part, in offsets of its run.

    `forms` are its spellings: words if `stemmed`, otherwise literals. `width` is the number of
    positions that it covers.
    """

    start: int
    end: int
    forms: tuple[str, ...]
    kind: PartKind
    stemmed: bool
    position: int
    width: int


_UnplacedPart: TypeAlias = tuple[int, int, tuple[str, ...], PartKind, bool]
"""The first five values of a CompoundPart; position and width follow from all parts together."""


def split_compound(run: str) -> tuple[list[CompoundPart], int]:
    """Return the parts of a run of letters, digits and inner punctuation, and its positions."""
    if run.isalnum():
        return [CompoundPart(0, len(run), (run,), "word", stemmed=True, position=0, width=1)], 1
    if is_too_long(run):
        return _with_positions(_word(match, 0) for match in WORD.finditer(run))
    return _with_positions(_split_at_marks(run, 0))


def is_too_long(run: str) -> bool:
    """Return whether a run is too long to be one compound; its parts are then only its words."""
    return len(run) > _MAX_COMPOUND_CHARS


def split_url(url: str) -> tuple[list[CompoundPart], int]:
    """Return the parts of a URL: the URL without scheme and `www.`, its host, and its words."""
    words = list(WORD.finditer(url, len(url) - len(_without_url_prefix(url))))
    if not words:
        return [], 0
    start, end = words[0].start(), words[-1].end()
    host = _HOST_END.split(url[start:end], maxsplit=1)[0]
    wholes: list[_UnplacedPart] = [(start, end, (url[start:end],), "whole", False)]
    if "." in host and len(host) < end - start:
        wholes.append((start, start + len(host), (host,), "whole", False))
    parts = (word for word in words if word.end() - word.start() <= _MAX_URL_PART_CHARS)
    return _with_positions([*wholes, *(_word(part, 0) for part in parts)])


def _split_at_marks(run: str, at: int) -> Iterator[_UnplacedPart]:
    """Split at the signs that separate (`:`, `@`, `+`), and keep email addresses across `@`."""
    if _RANGE.fullmatch(run):
        for part in _BETWEEN_HYPHENS.finditer(run):
            yield from _split_at_marks(part.group(), at + part.start())
        return
    if not _MARKS.search(run):
        yield from _split_at_slashes(run, at)
        return
    if timestamp := _TIMESTAMP.fullmatch(run):
        yield from _split_at_slashes(timestamp[1], at)
        yield from _split_at_marks(timestamp[2], at + timestamp.start(2))
        return
    if _CLOCK.fullmatch(run):
        yield at, at + len(run), (run,), "exact", False
    yield from _mail_addresses(run, at)
    for part in _BETWEEN_MARKS.finditer(run):
        yield from _split_at_slashes(part.group(), at + part.start())


def _mail_addresses(run: str, at: int) -> Iterator[_UnplacedPart]:
    start = 0
    names = run.split("@")
    for name, domain in pairwise(names):
        local = _LOCAL_START.split(name)[-1]
        host = _DOMAIN_END.split(domain, maxsplit=1)[0]
        sign = start + len(name)
        if local and "." in host:
            first, last = sign - len(local), sign + 1 + len(host)
            yield at + first, at + last, (run[first:last],), "whole", False
        start = sign + 1


def _split_at_slashes(run: str, at: int) -> Iterator[_UnplacedPart]:
    if "/" not in run:
        yield from _split_joined_word(run, at)
        return
    if _DIGIT.search(run):
        yield _whole_reference(run, at)
    for part in _BETWEEN_SLASHES.finditer(run):
        yield from _split_joined_word(part.group(), at + part.start())


def _split_joined_word(run: str, at: int) -> Iterator[_UnplacedPart]:
    """Split words joined by hyphens, dots, underscores or apostrophes, and normalize numbers."""
    if run.isalnum():
        yield at, at + len(run), (run,), "word", True
        return
    amount = _AMOUNT.fullmatch(run)
    if amount and (forms := normalize_number(amount[2])):
        yield from _amount(amount, forms, at)
        return
    words = list(WORD.finditer(run))
    if len(words) > 1:
        yield _joined_or_literal(run, [word.group() for word in words], at)
    for word in words:
        if len(words) == 1 or not _is_elided(run, word.start(), word.end()):
            yield _word(word, at)


def _word(match: regex.Match[str], at: int) -> _UnplacedPart:
    return at + match.start(), at + match.end(), (match.group(),), "word", True


def _amount(amount: re.Match[str], forms: tuple[str, ...], at: int) -> Iterator[_UnplacedPart]:
    """Yield a number, its integer part, its fraction, and an attached unit or currency."""
    for unit in (1, 3):
        if amount[unit]:
            yield at + amount.start(unit), at + amount.end(unit), (amount[unit],), "word", True
    start, end, written = at + amount.start(2), at + amount.end(2), amount[2]
    yield start, end, forms, "exact", False
    point = integer_part_length(written)
    if point < len(written):
        digits = "".join(c for c in written[:point] if c.isdigit())
        yield start, start + point, (digits,), "word", False
        yield start + point + 1, end, (written[point + 1 :],), "word", False


def _joined_or_literal(run: str, words: list[str], at: int) -> _UnplacedPart:
    """Join "e-mail" to "email", "don't" to "dont" and "U.S.A." to "usa"; keep "a.txt"."""
    letters = all(word.isalpha() for word in words)
    initials = letters and all(len(word) == 1 for word in words)
    if letters and (initials or not ("." in run or "_" in run)):
        return at, at + len(run), ("".join(words),), "whole", True
    return _whole_reference(run, at)


def _whole_reference(run: str, at: int) -> _UnplacedPart:
    kind: PartKind = "whole" if _LETTER_IN_RUN.search(run) else "exact"
    return at, at + len(run), normalize_date(run) or (_without_url_prefix(run),), kind, False


def _without_url_prefix(name: str) -> str:
    return _URL_PREFIX.sub("", name, count=1)


def _is_elided(run: str, start: int, end: int) -> bool:
    """Return whether a letter is not a word, like the l of "l'hôtel" and the t of "don't"."""
    apostrophe = run[end : end + 1] == "'" or run[max(0, start - 1) : start] == "'"
    return apostrophe and end - start == 1 and run[start].isalpha()


def _with_positions(parts: Iterable[_UnplacedPart]) -> tuple[list[CompoundPart], int]:
    """Add the position and width of every part, counted in the smallest parts."""
    in_order = sorted(parts, key=_longest_first)
    words = [start for start, _, _, kind, _ in in_order if kind == "word"]
    alone = [
        start
        for start, end, _, kind, _ in in_order
        if kind != "word" and bisect_left(words, start) == bisect_left(words, end)
    ]
    starts = sorted(words + alone) if alone else words
    positioned: list[CompoundPart] = []
    for start, end, forms, kind, stemmed in in_order:
        position = bisect_left(starts, start)
        width = bisect_left(starts, end, lo=position) - position
        positioned.append(CompoundPart(start, end, forms, kind, stemmed, position, width))
    return positioned, len(starts)


def _longest_first(part: _UnplacedPart) -> tuple[int, int]:
    return part[0], -part[1]
