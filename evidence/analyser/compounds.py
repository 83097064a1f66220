"""Names with parts: mail addresses, URLs, numbers, dates, reference numbers, hyphens, elisions.

Each is found whole and by its parts. A whole is one more piece over the same positions, so a phrase
may pass through either: "e-mail address" also matches "email address".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from evidence.analyser.numbers import day_forms, integer_part_length, number_forms
from evidence.analyser.words import WORD

PieceKind = Literal["word", "whole", "exact"]
"""`whole`: in a query the parts may stand for it. `exact`: they may not (12.50 is not 12 and 50)."""

# A longer part of a URL is a tracking token; the whole URL still finds it.
_URL_PART_CHARS = 64

_AMOUNT = re.compile(r"([^\W\d_]{1,4})?([0-9]+(?:[.,'][0-9]+)+)([^\W\d_]{1,4})?")
# The fraction of a second and the zone of a timestamp are no words.
_MOMENT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})t([0-9]{2}(?::[0-9]{2})+)(?:[.z+-].*)?")
_CLOCK = re.compile(r"[0-9]+(?::[0-9]+)+")
_RANGE = re.compile(r"[0-9]+[:.,/][0-9:.,/]*(?:-[0-9]+[:.,/][0-9:.,/]*)+")
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
    position: int = 0
    width: int = 1


def pieces(run: str) -> tuple[list[Piece], int]:
    """The pieces of a run of letters, digits and inner punctuation, and its number of positions."""
    if run.isalnum():
        return [Piece(0, len(run), (run,), "word", stemmed=True)], 1
    return _placed(list(_between_marks(run)))


def url_pieces(url: str) -> tuple[list[Piece], int]:
    """The pieces of a URL: itself without scheme and `www.`, its host, its parts."""
    words = list(WORD.finditer(url, len(url) - len(_without_lead(url))))
    if not words:
        return [], 0
    start, end = words[0].start(), words[-1].end()
    host = _HOST_END.split(url[start:end], maxsplit=1)[0]
    found = [Piece(start, end, (url[start:end],), "whole", stemmed=False)]
    if "." in host and len(host) < end - start:
        found.append(Piece(start, start + len(host), (host,), "whole", stemmed=False))
    parts = [w for w in words if w.end() - w.start() <= _URL_PART_CHARS]
    found.extend(Piece(w.start(), w.end(), (w.group(),), "word", stemmed=True) for w in parts)
    return _placed(found)


def _between_marks(run: str) -> Iterator[Piece]:
    """Split at the signs that part rather than join (`:`, `@`, `+`); mail addresses span `@`."""
    if moment := _MOMENT.fullmatch(run):
        yield from _at(0, _between_slashes(moment[1]))
        yield from _at(moment.start(2), _between_marks(moment[2]))
        return
    if _CLOCK.fullmatch(run):
        yield Piece(0, len(run), (run,), "exact", stemmed=False)
    yield from _mail_addresses(run)
    for part in re.finditer(r"[^:@+]+", run):
        yield from _at(part.start(), _between_slashes(part.group()))


def _mail_addresses(run: str) -> Iterator[Piece]:
    start = 0
    names = run.split("@")
    for name, domain in pairwise(names):
        local = re.split(r"[:/]", name)[-1]
        host = re.split(r"[:/+'_]", domain, maxsplit=1)[0]
        at = start + len(name)
        if local and "." in host:
            first, last = at - len(local), at + 1 + len(host)
            yield Piece(first, last, (run[first:last],), "whole", stemmed=False)
        start = at + 1


def _between_slashes(run: str) -> Iterator[Piece]:
    if _RANGE.fullmatch(run):
        for part in re.finditer(r"[^-]+", run):
            yield from _at(part.start(), _between_marks(part.group()))
        return
    if "/" in run and any(c.isdigit() for c in run):
        yield _reference(run)
    for part in re.finditer(r"[^/]+", run):
        yield from _at(part.start(), _joined(part.group()))


def _joined(run: str) -> Iterator[Piece]:
    """Words joined by hyphens, dots, underscores, apostrophes; numbers."""
    amount = _AMOUNT.fullmatch(run)
    if amount and (forms := number_forms(amount[2])):
        yield from _amount(amount, forms)
        return
    words = list(WORD.finditer(run))
    if len(words) > 1:
        yield from _closed_or_literal(run, [word.group() for word in words])
    for word in words:
        if len(words) == 1 or not _elided(run, word.start(), word.end()):
            yield Piece(word.start(), word.end(), (word.group(),), "word", stemmed=True)


def _amount(amount: re.Match[str], forms: tuple[str, ...]) -> Iterator[Piece]:
    """A number, its integer part and its fraction, and a unit or currency written onto it."""
    for unit in (1, 3):
        if amount[unit]:
            yield Piece(amount.start(unit), amount.end(unit), (amount[unit],), "word", stemmed=True)
    start, written = amount.start(2), amount[2]
    yield Piece(start, amount.end(2), forms, "exact", stemmed=False)
    point = integer_part_length(written)
    if point < len(written):
        digits = "".join(c for c in written[:point] if c.isdigit())
        yield Piece(start, start + point, (digits,), "word", stemmed=False)
        fraction = written[point + 1 :]
        yield Piece(start + point + 1, amount.end(2), (fraction,), "word", stemmed=False)


def _closed_or_literal(run: str, words: list[str]) -> Iterator[Piece]:
    """ "e-mail" is also "email", "don't" also "dont", "U.S.A." also "usa"; "a.txt" stays itself."""
    letters = all(word.isalpha() for word in words)
    initials = letters and all(len(word) == 1 for word in words)
    if letters and (initials or not set(run) & {".", "_"}):
        yield Piece(0, len(run), ("".join(words),), "whole", stemmed=True)
    else:
        yield _reference(run)


def _reference(run: str) -> Piece:
    kind: PieceKind = "whole" if _LETTER.search(run) else "exact"
    return Piece(0, len(run), day_forms(run) or (_without_lead(run),), kind, stemmed=False)


def _without_lead(name: str) -> str:
    return _LEAD.sub("", name, count=1)


def _elided(run: str, start: int, end: int) -> bool:
    """The l of "l'hôtel" and the t of "don't" are no words."""
    apostrophe = run[end : end + 1] == "'" or run[max(0, start - 1) : start] == "'"
    return apostrophe and end - start == 1 and run[start].isalpha()


def _at(offset: int, found: Iterator[Piece]) -> Iterator[Piece]:
    for piece in found:
        yield piece._replace(start=piece.start + offset, end=piece.end + offset)


def _placed(found: list[Piece]) -> tuple[list[Piece], int]:
    """Give every piece its position and width, counted in the smallest pieces."""
    words = sorted(piece.start for piece in found if piece.kind == "word")
    alone = [p.start for p in found if p.kind != "word" and not _count_between(words, p)]
    starts = sorted(words + alone)
    placed = [
        piece._replace(
            position=bisect_left(starts, piece.start),
            width=_count_between(starts, piece),
        )
        for piece in found
    ]
    return sorted(placed, key=lambda piece: (piece.start, -piece.end)), len(starts)


def _count_between(starts: list[int], piece: Piece) -> int:
    return bisect_left(starts, piece.end) - bisect_left(starts, piece.start)
