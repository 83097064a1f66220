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

from evidence.analyser.numbers import day_forms, integer_part_length, number_forms
from evidence.analyser.words import WORD

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
