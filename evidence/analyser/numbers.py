"""Numbers and dates as people write them, brought to one spelling.

"1,234.50", "1.234,50" and "1234.5" are one number; "2024-03-05", "2024/3/5" and "5.3.2024" one day.
Where a spelling has two readings ("1,234", "03/04/2024") both are returned: such a text is found
under either.
"""

from __future__ import annotations

import re

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
