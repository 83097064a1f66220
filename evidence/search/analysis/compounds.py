"""Split email addresses, URLs, numbers, dates and hyphenated words into searchable parts.

A compound matches as a whole and by its parts. The whole is one more part over the same positions,
so a phrase can use either: "e-mail address" also matches "email address".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import regex

from evidence.search.analysis.segmentation import WORD, PartKind

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
_LETTER = re.compile(r"[^\W\d_]")
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
    kind: PartKind = "whole" if _LETTER.search(run) else "exact"
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
