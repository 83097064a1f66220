"""Dates of which only their writer knows whether the day or the month comes first."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, islice, pairwise
from typing import NamedTuple

from importers.core.importer import ChoiceNeeded

NUMBERS = re.compile(r"(\d{1,4})\s*[./'-]\s*(\d{1,2})\s*[./'-]\s*(\d{1,4})(?:\D|$)")
COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:\D|$)")
EVIDENCE_LINES = 3
DAYS_MOST = 200_000
_PLACES = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}


class Triple(NamedTuple):
    """Three numbers as written, in their order. ``dotted``: nobody puts a month first with dots."""

    numbers: tuple[str, str, str]
    dotted: bool


def triple(text: str) -> Triple | None:
    """The date that a text begins with."""
    found = NUMBERS.match(text.strip()) or COMPACT.match(text.strip())
    if found is None:
        return None
    return Triple((found[1], found[2], found[3]), "." in found[0])


def day(found: Triple, order: str) -> date | None:
    """The day, None where there is none such, as of 30 February."""
    year, month, day_number = (int(found.numbers[place]) for place in _PLACES[order])
    if len(found.numbers[_PLACES[order][0]]) <= 2:
        year += 2000 if year < 70 else 1900
    try:
        return date(year, month, day_number)
    except ValueError:
        return None


def order_of(
    texts: Iterable[str], *, years: range, chosen: str | None, ascends: bool = False
) -> str:
    """The one order in which the dates of an export can be meant.

    A single date that is impossible in an order is a slip of its writer, so an order may fail once,
    or once in twenty. A year of two digits stands in front only where nothing else fits. ``years`` are those that can be; where the export ``ascends``, an order in which it
    would not is out. Raises ``ChoiceNeeded`` with lines that leave it open.
    """
    found_in_order = (found for text in texts if (found := triple(text)))
    triples = [each for each, _ in islice(groupby(found_in_order), DAYS_MOST)]
    if not triples:
        return chosen or "ymd"
    if all(len(each.numbers[0]) == 4 for each in triples):
        return "ymd"
    left = [order for order in ("dmy", "mdy") if _fits(triples, order, years)] or ["ymd"]
    if all(each.dotted for each in triples) and "dmy" in left:
        return "dmy"
    if len(left) > 1 and ascends:
        steps_back = {order: _steps_back(triples, order) for order in left}
        left = [order for order in left if steps_back[order] == min(steps_back.values())]
    if chosen in left:
        return chosen
    if len(left) == 1:
        return left[0]
    raise ChoiceNeeded(
        "The dates can be read in several ways: the day may come first, or the month.",
        evidence=_evidence(triples, left or list(_PLACES)),
        flag="--date-order dmy, --date-order mdy or --date-order ymd",
    )


def _fits(triples: Sequence[Triple], order: str, years: range) -> bool:
    bad = sum(1 for each in triples if not (found := day(each, order)) or found.year not in years)
    return bad <= max(1, len(triples) // 20) and bad * 2 < len(triples)


def _steps_back(triples: Sequence[Triple], order: str) -> int:
    days = [found for each in triples if (found := day(each, order))]
    return sum(1 for before, after in pairwise(days) if after < before)


def _evidence(triples: Sequence[Triple], orders: Sequence[str]) -> list[str]:
    lines = []
    for each in list(dict.fromkeys(triples))[:EVIDENCE_LINES]:
        readings = [
            f"{found:%-d %B %Y} ({order})" for order in orders if (found := day(each, order))
        ]
        written = ("." if each.dotted else "/").join(each.numbers)
        lines.append(f"{written} is {' or '.join(readings) or 'no date'}")
    return lines


def moment(seconds: object) -> str | None:
    """Seconds since 1970, as a number or as text."""
    try:
        return datetime.fromtimestamp(float(str(seconds)), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
