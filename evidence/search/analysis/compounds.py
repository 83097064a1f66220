"""Names with parts: mail addresses, URLs, numbers, dates, reference numbers, hyphens, elisions.

Each is found whole and by its parts. A whole is one more piece over the same positions, so a phrase
may pass through either: "e-mail address" also matches "email address".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import regex

from evidence.search.analysis.segmentation import WORD

_GROUPED = re.compile(r"[0-9]{1,3}(?:([.,'])[0-9]{3})(?:\1[0-9]{3})*")
_YEAR_FIRST = re.compile(r"([0-9]{4})([-./])([0-9]{1,2})\2([0-9]{1,2})")
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-./])([0-9]{1,2})\2([0-9]{4})")
_MONTHS = 12
_DAYS = 31


def number_forms(written: str) -> tuple[str, ...]:
    """The plain spellings of digits with dots, commas or apostrophes between them; empty when they
    are no number, but a date, an address or a version.
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
    if point == "'" or (len(separators) > 1 and not _groups_with_another_sign(whole, point)):
        return ()
    return (_decimal(written, point),)


def integer_part_length(written: str) -> int:
    """How much of a number with a decimal sign is its integer part; all of it without one."""
    if _GROUPED.fullmatch(written):
        return len(written)
    return max(written.rfind("."), written.rfind(","))


def day_forms(written: str) -> tuple[str, ...]:
    """The ISO spellings of a numeric date; empty when `written` is none."""
    if first := _YEAR_FIRST.fullmatch(written):
        year, _, month, day = first.groups()
        return _days((year, month, day))
    if last := _YEAR_LAST.fullmatch(written):
        one, sign, two, year = last.groups()
        # Dotted dates put the day first everywhere; with a slash or hyphen it depends on the writer.
        either = () if sign == "." else ((year, one, two),)
        return _days((year, two, one), *either)
    return ()


def _groups_with_another_sign(whole: str, point: str) -> bool:
    return point not in whole and _GROUPED.fullmatch(whole) is not None


def _digits(written: str) -> str:
    return "".join(c for c in written if c.isdigit())


def _decimal(written: str, point: str) -> str:
    whole, _, fraction = written.rpartition(point)
    fraction = fraction.rstrip("0")
    return f"{_digits(whole)}.{fraction}" if fraction else _digits(whole)


def _days(*readings: tuple[str, str, str]) -> tuple[str, ...]:
    days = (
        f"{year}-{int(month):02}-{int(day):02}"
        for year, month, day in readings
        if 1 <= int(month) <= _MONTHS and 1 <= int(day) <= _DAYS
    )
    return tuple(dict.fromkeys(days))


PieceKind = Literal["word", "whole", "exact"]
"""`whole`: in a query the parts may stand for it. `exact`: they may not (12.50 is not 12 and 50)."""

_NAME_CHARS = 256

# A longer part of a URL is a tracking token; the whole URL still finds it.
_URL_PART_CHARS = 64

_AMOUNT = re.compile(r"([^\W\d_]{1,4})?([0-9]+(?:[.,'][0-9]+)+)([^\W\d_]{1,4})?")
# The fraction of a second and the zone of a timestamp are no words.
_MOMENT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})t([0-9]{2}(?::[0-9]{2})+)(?:[.z+-].*)?")
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
_LEAD = re.compile(r"^(?:[a-z][a-z0-9+.\-]*://)?(?:www\.)*")
_HOST_END = re.compile(r"[/?#:]")


class Piece(NamedTuple):
    """Something to be found, in offsets of its run.

    `forms` are its spellings; with `stemmed` they are words, otherwise literals. `width` is the
    number of positions it covers.
    """

    start: int
    end: int
    forms: tuple[str, ...]
    kind: PieceKind
    stemmed: bool
    position: int
    width: int


_Found: TypeAlias = tuple[int, int, tuple[str, ...], PieceKind, bool]
"""The first five of a piece, before all are found and its place can be told."""


def pieces(run: str) -> tuple[list[Piece], int]:
    """The pieces of a run of letters, digits and inner punctuation, and its number of positions."""
    if run.isalnum():
        return [Piece(0, len(run), (run,), "word", stemmed=True, position=0, width=1)], 1
    if is_no_name(run):
        return _placed(_word(found, 0) for found in WORD.finditer(run))
    return _placed(_between_marks(run, 0))


def is_no_name(run: str) -> bool:
    """Whether a run is too long to be one name; its pieces are then its words and nothing else."""
    return len(run) > _NAME_CHARS


def url_pieces(url: str) -> tuple[list[Piece], int]:
    """The pieces of a URL: itself without scheme and `www.`, its host, its parts."""
    words = list(WORD.finditer(url, len(url) - len(_without_lead(url))))
    if not words:
        return [], 0
    start, end = words[0].start(), words[-1].end()
    host = _HOST_END.split(url[start:end], maxsplit=1)[0]
    found: list[_Found] = [(start, end, (url[start:end],), "whole", False)]
    if "." in host and len(host) < end - start:
        found.append((start, start + len(host), (host,), "whole", False))
    parts = (word for word in words if word.end() - word.start() <= _URL_PART_CHARS)
    return _placed([*found, *(_word(part, 0) for part in parts)])


def _between_marks(run: str, at: int) -> Iterator[_Found]:
    """Split at the signs that part rather than join (`:`, `@`, `+`); mail addresses span `@`."""
    if _RANGE.fullmatch(run):
        for part in _BETWEEN_HYPHENS.finditer(run):
            yield from _between_marks(part.group(), at + part.start())
        return
    if not _MARKS.search(run):
        yield from _between_slashes(run, at)
        return
    if moment := _MOMENT.fullmatch(run):
        yield from _between_slashes(moment[1], at)
        yield from _between_marks(moment[2], at + moment.start(2))
        return
    if _CLOCK.fullmatch(run):
        yield at, at + len(run), (run,), "exact", False
    yield from _mail_addresses(run, at)
    for part in _BETWEEN_MARKS.finditer(run):
        yield from _between_slashes(part.group(), at + part.start())


def _mail_addresses(run: str, at: int) -> Iterator[_Found]:
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


def _between_slashes(run: str, at: int) -> Iterator[_Found]:
    if "/" not in run:
        yield from _joined(run, at)
        return
    if _DIGIT.search(run):
        yield _reference(run, at)
    for part in _BETWEEN_SLASHES.finditer(run):
        yield from _joined(part.group(), at + part.start())


def _joined(run: str, at: int) -> Iterator[_Found]:
    """Words joined by hyphens, dots, underscores, apostrophes; numbers."""
    if run.isalnum():
        yield at, at + len(run), (run,), "word", True
        return
    amount = _AMOUNT.fullmatch(run)
    if amount and (forms := number_forms(amount[2])):
        yield from _amount(amount, forms, at)
        return
    words = list(WORD.finditer(run))
    if len(words) > 1:
        yield _closed_or_literal(run, [word.group() for word in words], at)
    for word in words:
        if len(words) == 1 or not _elided(run, word.start(), word.end()):
            yield _word(word, at)


def _word(found: regex.Match[str], at: int) -> _Found:
    return at + found.start(), at + found.end(), (found.group(),), "word", True


def _amount(amount: re.Match[str], forms: tuple[str, ...], at: int) -> Iterator[_Found]:
    """A number, its integer part and its fraction, and a unit or currency written onto it."""
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


def _closed_or_literal(run: str, words: list[str], at: int) -> _Found:
    """ "e-mail" is also "email", "don't" also "dont", "U.S.A." also "usa"; "a.txt" stays itself."""
    letters = all(word.isalpha() for word in words)
    initials = letters and all(len(word) == 1 for word in words)
    if letters and (initials or not ("." in run or "_" in run)):
        return at, at + len(run), ("".join(words),), "whole", True
    return _reference(run, at)


def _reference(run: str, at: int) -> _Found:
    kind: PieceKind = "whole" if _LETTER.search(run) else "exact"
    return at, at + len(run), day_forms(run) or (_without_lead(run),), kind, False


def _without_lead(name: str) -> str:
    return _LEAD.sub("", name, count=1)


def _elided(run: str, start: int, end: int) -> bool:
    """The l of "l'hôtel" and the t of "don't" are no words."""
    apostrophe = run[end : end + 1] == "'" or run[max(0, start - 1) : start] == "'"
    return apostrophe and end - start == 1 and run[start].isalpha()


def _placed(found: Iterable[_Found]) -> tuple[list[Piece], int]:
    """Give every piece its position and width, counted in the smallest pieces."""
    in_order = sorted(found, key=_longest_first)
    words = [start for start, _, _, kind, _ in in_order if kind == "word"]
    alone = [
        start
        for start, end, _, kind, _ in in_order
        if kind != "word" and bisect_left(words, start) == bisect_left(words, end)
    ]
    starts = sorted(words + alone) if alone else words
    placed: list[Piece] = []
    for start, end, forms, kind, stemmed in in_order:
        position = bisect_left(starts, start)
        width = bisect_left(starts, end, lo=position) - position
        placed.append(Piece(start, end, forms, kind, stemmed, position, width))
    return placed, len(starts)


def _longest_first(found: _Found) -> tuple[int, int]:
    return found[0], -found[1]
