"""Parse dates, times and Unix timestamps, and detect whether an export writes the day or the month first.

A moment is a date with a time and a known zone; it is given in UTC.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import groupby, islice, pairwise
from time import monotonic
from typing import NamedTuple

from importers.core.export_files import PLAUSIBLE_YEARS
from importers.core.importer import ChoiceNeeded
from importers.core.results import ParsedItem, ReceiptCode

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


DATES, AS_WRITTEN = "dates", "as-written"
"""The answer ``--column dates=as-written``: the dates are right, however early or late."""
_CHECKED_DATES = 200
_CHECKING_SECONDS = 2.0
_YEAR = re.compile(r"\d{4}(?=-)")
_MONTHS = (
    "jan ene gen янв sty oca tam led", "feb fev фев lut sub hel uno",
    "mar mrz mrt maa mart мар bre", "apr avr abr апр kwi nis huh dub",
    "may mai mei mag maj май мая tou kve", "jun juin giu июн cze haz kes cvn cerv lipa lipn",
    "jul juil lug июл lip tem hei cvc cervene cervenc srpan srpnj",
    "aug avg aou ago авг sie agu elo srpen srpna", "sep set сен wrz eyl syy zar",
    "oct okt out ott окт paz eki lok rij", "nov ноя lis kas marr", "dec dez dic des дек gru ara jou pro",
)  # fmt: skip
_NUMBER_BY_MONTH = {
    name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()
}
_NAMED = re.compile(
    r"(?:[^\W\d]{2,9}\.?,?\s+)?(?:(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?[\s./-]*(?:de\s+)?(?P<month>[^\W\d_]{3,12})"
    r"|(?P<month_first>[^\W\d_]{3,10})\.?\s+(?P<day_second>\d{1,2})(?:st|nd|rd|th)?)"
    r"\.?,?[\s./'-]*(?:de\s+)?(?P<year>\d{4}|\d{2})?(?!\d)",
    re.IGNORECASE,
)
_CJK = re.compile(r"(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월]\s*(\d{1,2})\s*[日일]")
_ERA = re.compile(
    r"(?:(?P<reiwa>令和|R)|(?P<heisei>平成|H)|昭和|S)\s*(?P<year>\d{1,2}|元)\s*[年./-]\s*(?P<month>\d{1,2})"
    r"\s*[月./-]\s*(?P<day>\d{1,2})(?!\d)",
    re.IGNORECASE,
)
"""A year of an era of Japan, whose first one has a name."""
_CROATIAN_OCTOBER = re.compile(r"\d{1,2}\.\s*listopada", re.IGNORECASE)
"""Without the dot it is a day of November in Polish."""
_LAST_YEAR = 2200
_WEEKDAY = re.compile(r"^[^\W\d]{2,10}[.,]*\s+(?=\d)")
_CLOCK = re.compile(
    r"(?P<before>[^\W\d]{2}\s+)?(?<!\d)(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"(?:\s?(?P<after>[ap]\.?\s?m\.?))?(?P<zone>(?:\s+\(?\S{1,12}\)?)?)\s*$",
    re.IGNORECASE,
)
_AFTERNOON = {"pm", "오후", "下午", "午後"}
_MORNING = {"am", "오전", "上午", "午前"}
_OFFSET = re.compile(r"(?:GMT|UTC|Z)?([+-])(\d{1,2})(?::?(\d{2}))?")
_WEEKDAY_BEFORE = re.compile(r"^[^\W\d]{2,15}\.?,\s+")
_JOINERS = re.compile(
    r"(?:,|\s(?:at|um|à|a las|alle|om|às|kl\.?|\u043e|\u0433\.?))+\s*$", re.IGNORECASE
)
_YEAR_LAST_NUMERIC = re.compile(r"\d{1,2}\s*[/-]\s*\d{1,2}\s*[/-]\s*\d{2,4}")
_ZONES = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2,
    "EEST": 3, "OEZ": 2, "OESZ": 3, "MSK": 3, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "EST": -5,
    "EDT": -4, "AKST": -9, "AKDT": -8, "HST": -10, "NZST": 12, "NZDT": 13, "AEST": 10, "AEDT": 11,
    "ACST": 9.5, "ACDT": 10.5, "AWST": 8, "JST": 9, "KST": 9, "SGT": 8, "HKT": 8, "BRT": -3, "SAST": 2,
    "PKT": 5, "WIB": 7,
}  # fmt: skip
"""Offsets in hours of names that only one zone has. BST, IST, CST and AST have several."""


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
    """Return the date in this order, or None for an impossible one such as 30 February.

    A year of four digits in front is one whatever the order.
    """
    order = "ymd" if len(written.numbers[0]) == 4 else order
    year, month, day = (int(written.numbers[position]) for position in _POSITIONS[order])
    if len(written.numbers[_POSITIONS[order][0]]) <= 2:
        year += BEFORE_REIWA if order == "reiwa" else 2000 if year < 70 else 1900
    try:
        return date(year, month, day)
    except ValueError:
        return None


def require_plausible(items: Iterable[ParsedItem], fields: Mapping[str, str]) -> None:
    """Raise ``ChoiceNeeded`` if most of the first dates are not in PLAUSIBLE_YEARS.

    Such dates come from a wrong unit or epoch. ``fields`` name the time of a record by stream.
    """
    until, dates, wrong = monotonic() + _CHECKING_SECONDS, 0, list[str]()
    for item in items:
        for record in item.records:
            written = str(record.data.get(fields.get(record.stream, "")) or "")
            if year := _YEAR.match(written):
                dates += 1
                if int(year[0]) not in PLAUSIBLE_YEARS:
                    wrong.append(written)
        if dates >= _CHECKED_DATES or monotonic() > until:
            break
    if len(wrong) * 2 > dates:
        raise ChoiceNeeded(
            f"{len(wrong):,} of the first {dates:,} dates are before {PLAUSIBLE_YEARS[0]} or after"
            f" {PLAUSIBLE_YEARS[-1]}. Are they right?",
            evidence=wrong[:EVIDENCE_LINES],
            flag=f"--column {DATES}={AS_WRITTEN} if they are",
        )


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

    An order that fits all dates is taken before others. If none does, an order may fail for one date,
    or for one in twenty: a single impossible date is a typing error. A two-digit year comes first only where no other order fits, or ``year_may_be_first``.
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
    # One impossible month decides between orders.
    orders = [order for order in orders if not _count_bad(dates, order, years)] or orders
    if len(orders) > 1 and ascends:
        steps_back = {order: _count_steps_back(dates, order) for order in orders}
        orders = [order for order in orders if steps_back[order] == min(steps_back.values())]
    if chosen in orders:
        return chosen
    if len(orders) == 1:
        return orders[0]
    raise ChoiceNeeded(
        "The dates are ambiguous: does the day come first, or the month?",
        evidence=_examples(dates, orders),
        flag=_FLAG + ", or reiwa for years of that era" * ("reiwa" in orders),
    )


def _count_bad(dates: Sequence[WrittenDate], order: str, years: range) -> int:
    days = (to_date(written, order) for written in dates)
    return sum(1 for day in days if day is None or day.year not in years)


def _fits(dates: Sequence[WrittenDate], order: str, years: range) -> bool:
    bad = _count_bad(dates, order, years)
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


def _count_steps_back(dates: Sequence[WrittenDate], order: str) -> int:
    days = [day for written in dates if (day := to_date(written, order))]
    return sum(1 for before, after in pairwise(days) if after < before)


def readings_by_order(texts: Iterable[str], *, is_japanese: bool = False) -> dict[str, str]:
    """Return what the date that has the most readings is in each order; ISO dates have one.

    The order of the era Reiwa is for Japanese exports only.
    """
    orders = [order for order in _POSITIONS if is_japanese or order != "reiwa"]
    dates = {written: None for text in texts if (written := parse_written_date(text))}
    found: dict[str, str] = {}
    for written in islice(dates, MAX_DATES):
        days = {order: to_date(written, order) for order in orders}
        readings = {
            order: f"{_join(written)} → {day:%-d %B %Y}" for order, day in days.items() if day
        }
        if len(readings) > len(found) and len(written.numbers[0]) < 4:
            found = readings
    return found


def _join(written: WrittenDate) -> str:
    return ("." if written.has_dots else "/").join(written.numbers)


def _examples(dates: Sequence[WrittenDate], orders: Sequence[str]) -> list[str]:
    """Return what dates with several readings are in each order."""
    lines = []
    for written in dict.fromkeys(dates):
        days = dict.fromkeys(day for order in orders if (day := to_date(written, order)))
        if len(days) > 1:
            readings = " or ".join(f"{day:%-d %B %Y}" for day in days)
            lines.append(f"{_join(written)} is {readings}")
    return lines[:EVIDENCE_LINES]


def unix_to_iso(seconds: object) -> str | None:
    """Return a Unix timestamp, given as number or text, in ISO 8601 and UTC."""
    try:
        return datetime.fromtimestamp(float(str(seconds)), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def normalize(text: str) -> str:
    """Return the date in numbers. A month in words is unambiguous, so its date becomes ISO 8601."""
    text = unicodedata.normalize("NFKC", text).strip().strip("'\"")
    if cjk := _CJK.match(text):
        return f"{cjk[1]}-{int(cjk[2]):02}-{int(cjk[3]):02}"
    if era := _ERA.match(text):
        before = BEFORE_REIWA if era["reiwa"] else 1988 if era["heisei"] else 1925
        year = before + (1 if era["year"] == "元" else int(era["year"]))
        return f"{year}-{int(era['month']):02}-{int(era['day']):02}"
    match = _NAMED.match(text) if text and not text[:10].replace("-", "").isdecimal() else None
    if match is None or not match["year"]:
        return _WEEKDAY.sub("", text)
    word = unicodedata.normalize("NFKD", (match["month"] or match["month_first"]).lower())
    bare = "".join(char for char in word if not unicodedata.combining(char))
    starts = (bare[:length] for length in (7, 5, 4, 3))
    month = next((_NUMBER_BY_MONTH[start] for start in starts if start in _NUMBER_BY_MONTH), None)
    if month is None or _CROATIAN_OCTOBER.match(text):
        return text
    year = int(match["year"])
    year += 0 if year > 99 else 2000 if year < 70 else 1900
    return f"{year:04}-{month:02}-{int(match['day'] or match['day_second']):02}"


@lru_cache(maxsize=4_096)
def is_date_like(text: str) -> bool:
    return parse_written_date(normalize(text)) is not None


def parse_date(text: str, order: str) -> date | None:
    """Return the date, or None for an impossible one, such as one with a Thai year."""
    written = parse_written_date(normalize(text))
    if written is None:
        return None
    day = to_date(written, order)
    return day if day is not None and day.year <= _LAST_YEAR else None


def detect_order(
    texts: Iterable[str], *, last_year: int, chosen: str | None, is_japanese: bool = False
) -> str:
    """Return the order of day, month and year. Raises ``ChoiceNeeded`` if several fit."""
    return detect_date_order(
        (text for text in map(normalize, texts) if len(text.split("-", 1)[0]) != 4),
        years=range(1970, last_year + 1),
        chosen=chosen,
        year_may_be_first=True,
        is_japanese=is_japanese,
    )


def to_utc(value: object) -> str | None:
    """Return an ISO 8601 time in UTC, or None for any value without a zone."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(re.sub(" UTC$", "+00:00", value.strip()))
        return _iso(moment) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def unix_to_utc(value: object, *, per_second: int = 1) -> str | None:
    """Return a Unix time in UTC. Zero, which exports write for a missing time, becomes None."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    seconds, rest = divmod(number, per_second)
    text = unix_to_iso(seconds) if number > 0 else None
    if text is None or not rest:
        return text
    digits = len(str(per_second)) - 1
    return f"{text[:-1]}.{rest:0{digits}}Z"


def local_to_utc(moment: datetime, zone: tzinfo) -> str | None:
    """Return a time without a zone, read in this zone."""
    try:
        return _iso(moment.replace(tzinfo=moment.tzinfo or zone))
    except (ValueError, OverflowError):
        return None


def parse_written_moment(text: str, zone: tzinfo, item: ParsedItem) -> str | None:
    """Return the moment of a text such as ``Mar 3, 2026, 6:25:05 AM PDT``.

    Names of months may be in some twenty languages. A zone that is missing, or whose name several
    zones have, is the one of the import, with a receipt. A date whose order of day and month is
    unknown has a receipt only.
    """
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    if (found := _local_moment(text)) is None:
        return item.require_date(None, text)
    moment, name = found
    offset = zone_offset(name)
    if offset is None and not (own := _own_offset(name, moment, zone)):
        item.add_issue(ReceiptCode.UNKNOWN_TIME_ZONE, detail=name[:40] or "none is written")
    elif offset is None:
        offset = own
    return item.require_date(local_to_utc(moment, zone if offset is None else offset), text)


def parse_local_moment(text: str, zone: tzinfo) -> str | None:
    """Return the moment of a written time, in this zone if it names none that is known."""
    if (found := _local_moment(" ".join(unicodedata.normalize("NFKC", text).split()))) is None:
        return None
    moment, name = found
    return local_to_utc(moment, zone_offset(name) or zone)


def _local_moment(text: str) -> tuple[datetime, str] | None:
    """Return a written time, and the name of its zone, which may be empty."""
    if (clock := _CLOCK.search(text)) is None:
        return None
    marker = re.sub(r"[.\s]", "", clock["after"] or clock["before"] or "").lower()
    date_text = text[: clock.start() if marker and not clock["after"] else clock.start("hour")]
    date_text = _JOINERS.sub("", _WEEKDAY_BEFORE.sub("", date_text).strip()).strip(" ,")
    if _YEAR_LAST_NUMERIC.fullmatch(date_text):
        return None
    day = parse_date(date_text, "dmy")
    hour = int(clock["hour"])
    if marker in _AFTERNOON or marker in _MORNING:
        hour = hour % 12 + (12 if marker in _AFTERNOON else 0)
    if day is None:
        return None
    try:
        clock_time = time(hour, int(clock["minute"]), int(clock["second"] or 0))
        return datetime.combine(day, clock_time), clock["zone"].strip(" ()")
    except ValueError:
        return None


def zone_offset(name: str) -> timezone | None:
    """Return the offset of a name such as CET, GMT+1 or +01:00, or None for an unknown name."""
    if (hours := _ZONES.get(name.upper())) is not None:
        return timezone(timedelta(hours=hours))
    if match := _OFFSET.fullmatch(name):
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes)) if minutes < 1440 else None  # fmt: skip
    return None


def _own_offset(name: str, moment: datetime, zone: tzinfo) -> timezone | None:
    """Return the offset that this name means in the zone of the import.

    Takeout names the offset at the time of the export, also for days with another one.
    """
    for month in (1, 7):
        local = moment.replace(month=month, day=1, tzinfo=zone)
        if local.tzname() == name and (offset := local.utcoffset()) is not None:
            return timezone(offset)
    return None
