"""Read written dates, which may name the month in some twenty languages."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date

from importers.core import dates

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


def normalize(text: str) -> str:
    """Return the date in numbers. A month in words is unambiguous, so its date becomes ISO 8601."""
    text = unicodedata.normalize("NFKC", text).strip().strip("'\"")
    if cjk := _CJK.match(text):
        return f"{cjk[1]}-{int(cjk[2]):02}-{int(cjk[3]):02}"
    if era := _ERA.match(text):
        before = dates.BEFORE_REIWA if era["reiwa"] else 1988 if era["heisei"] else 1925
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


def is_date_like(text: str) -> bool:
    return dates.parse_written_date(normalize(text)) is not None


def parse_date(text: str, order: str) -> date | None:
    """Return the date, or None for an impossible one, such as one with a Thai year."""
    written = dates.parse_written_date(normalize(text))
    if written is None:
        return None
    day = dates.to_date(written, "ymd" if len(written.numbers[0]) == 4 else order)
    return day if day is not None and day.year <= _LAST_YEAR else None


def detect_order(
    texts: Iterable[str], *, last_year: int, chosen: str | None, is_japanese: bool = False
) -> str:
    """Return the order of day, month and year. Raises ``ChoiceNeeded`` if several fit."""
    return dates.detect_date_order(
        (text for text in map(normalize, texts) if len(text.split("-", 1)[0]) != 4),
        years=range(1970, last_year + 1),
        chosen=chosen,
        year_may_be_first=True,
        is_japanese=is_japanese,
    )
