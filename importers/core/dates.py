"""Parse dates and Unix timestamps, and detect whether an export writes the day or the month first."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, islice, pairwise
from typing import NamedTuple, NoReturn

from importers.core.importer import ChoiceNeeded

NUMBERS = re.compile(r"(\d{1,4})\s*[./'-]\s*(\d{1,2})\s*[./'-]\s*(\d{1,4})(?:\D|$)")
COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:\D|$)")
EVIDENCE_LINES = 3
MONTHS_PER_YEAR = 12
MAX_DATES = 200_000
RECENT_YEARS = 11
BEFORE_REIWA = 2018
"""The year before the first one of the era of Japan that began in 2019."""
_FLAG = "--date-order dmy, --date-order mdy or --date-order ymd"
_POSITIONS = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2), "reiwa": (0, 1, 2)}
"""Positions of year, month and day."""


class WrittenDate(NamedTuple):
    """The three numbers of a date as written. No locale writes month before day with dots."""

    numbers: tuple[str, str, str]
    has_dots: bool


def parse_written_date(text: str) -> WrittenDate | None:
    """Return the date at the start of the text."""
    match = NUMBERS.match(text.strip()) or COMPACT.match(text.strip())
    if match is None:
        return None
    if match.re is COMPACT and int(match[2]) > MONTHS_PER_YEAR:  # 28012026
        digits = match[1] + match[2] + match[3]
        return WrittenDate((digits[:2], digits[2:4], digits[4:]), has_dots=False)
    return WrittenDate((match[1], match[2], match[3]), "." in match[0])


def to_date(written: WrittenDate, order: str) -> date | None:
    """Return the date in this order, or None for an impossible one such as 30 February."""
    year, month, day = (int(written.numbers[position]) for position in _POSITIONS[order])
    if len(written.numbers[_POSITIONS[order][0]]) <= 2:
        year += BEFORE_REIWA if order == "reiwa" else 2000 if year < 70 else 1900
    try:
        return date(year, month, day)
    except ValueError:
        return None


def detect_date_order(
    texts: Iterable[str],
    *,
    years: range,
    chosen: str | None,
    ascends: bool = False,
    year_may_be_first: bool = False,
    is_japanese: bool = False,
) -> str:
    """Return the only order of day, month and year that fits the dates of an export.

    An order may fail for one date, or for one in twenty, since a single impossible date is a typing
    error. A two-digit year comes first only where no other order fits, or ``year_may_be_first``.
    ``years`` are the possible years. If the export ``ascends``, the order with the fewest steps back
    in time is taken. Two-digit years of a Japanese export may be of the era Reiwa. Raises
    ``ChoiceNeeded`` with examples when several fit.
    """
    written_dates = (written for text in texts if (written := parse_written_date(text)))
    dates = [written for written, _ in islice(groupby(written_dates), MAX_DATES)]
    if not dates:
        return chosen or "ymd"
    if all(len(written.numbers[0]) == 4 for written in dates):
        return "ymd"
    orders = [order for order in ("dmy", "mdy") if _fits(dates, order, years)] or ["ymd"]
    if is_japanese and _fits(dates, "reiwa", years):
        orders = ["ymd", "reiwa", *(order for order in orders if order != "ymd")]
    elif not is_japanese and all(written.has_dots for written in dates) and "dmy" in orders:
        return "dmy"
    elif year_may_be_first and orders != ["ymd"]:
        is_sure = _is_year_first(dates, years)
        orders = ["ymd"] if is_sure else orders if is_sure is None else [*orders, "ymd"]
    if len(orders) > 1 and ascends:
        orders = _fewest_steps_back(dates, orders)
    if chosen in orders:
        return chosen
    if len(orders) == 1:
        return orders[0]
    return _ask(dates, orders)


def _ask(dates: Sequence[WrittenDate], orders: Sequence[str]) -> NoReturn:
    raise ChoiceNeeded(
        "The dates are ambiguous: does the day come first, or the month?",
        evidence=_examples(dates, orders),
        flag=_FLAG + ", or reiwa for years of that era" * ("reiwa" in orders),
    )


def _fits(dates: Sequence[WrittenDate], order: str, years: range) -> bool:
    days = (to_date(written, order) for written in dates)
    bad = sum(1 for day in days if day is None or day.year not in years)
    return bad <= max(1, len(dates) // 20) and bad * 2 < len(dates)


def _is_year_first(dates: Sequence[WrittenDate], years: range) -> bool | None:
    """Return whether two-digit years come first for sure, or None if they do not.

    Of the first and the last number the one is the year that is recent and varies less.
    """
    recent = range(years.stop - RECENT_YEARS, years.stop)
    first, last = ({written.numbers[position] for written in dates} for position in (0, 2))
    if any(len(number) > 2 for number in first | last) or not _fits(dates, "ymd", recent):
        return None
    if not all(2000 + int(number) in recent for number in last):
        return True
    return False if len(first) < len(last) else None


def _fewest_steps_back(dates: Sequence[WrittenDate], orders: Sequence[str]) -> list[str]:
    steps_back = {order: _count_steps_back(dates, order) for order in orders}
    return [order for order in orders if steps_back[order] == min(steps_back.values())]


def _count_steps_back(dates: Sequence[WrittenDate], order: str) -> int:
    days = [day for written in dates if (day := to_date(written, order))]
    return sum(1 for before, after in pairwise(days) if after < before)


def readings_by_order(texts: Iterable[str]) -> dict[str, str]:
    """Return what the date that has the most readings is in each order; ISO dates have one."""
    dates = {written: None for text in texts if (written := parse_written_date(text))}
    found: dict[str, str] = {}
    for written in islice(dates, MAX_DATES):
        days = {order: to_date(written, order) for order in _POSITIONS}
        readings = {
            order: f"{_join(written)} → {day:%-d %B %Y}" for order, day in days.items() if day
        }
        if len(readings) > len(found) and len(written.numbers[0]) < 4:
            found = readings
    return found


def _join(written: WrittenDate) -> str:
    return ("." if written.has_dots else "/").join(written.numbers)


def _examples(dates: Sequence[WrittenDate], orders: Sequence[str]) -> list[str]:
    lines = []
    for written in list(dict.fromkeys(dates))[:EVIDENCE_LINES]:
        days = ((order, to_date(written, order)) for order in orders)
        readings = [f"{day:%-d %B %Y}" for _, day in days if day]
        lines.append(f"{_join(written)} is {' or '.join(readings) or 'no date'}")
    return lines


def unix_to_iso(seconds: object) -> str | None:
    """Return a Unix timestamp, given as number or text, in ISO 8601 and UTC."""
    try:
        return datetime.fromtimestamp(float(str(seconds)), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
