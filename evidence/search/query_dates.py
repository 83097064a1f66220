"""Find a full date in a query, in numbers or with the name of a month."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from django.utils import timezone
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import trans_real

from evidence.access.scope import TimeRange
from evidence.search.analysis.compounds import normalize_date
from evidence.search.analysis.folding import fold, strip_marks
from evidence.search.analysis.query_tree import And, Leaf, Node, Query

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")


@dataclass(frozen=True, slots=True)
class DatedQuery:
    """The days that the date of a query can mean, its number of words, and the other words, if any."""

    days: tuple[date, ...]
    words: int
    rest: Query | None

    @property
    def periods(self) -> list[TimeRange]:
        """Return each day in the current time zone."""
        starts = [timezone.make_aware(datetime.combine(day, time())) for day in self.days]
        return [TimeRange(since=start, until=start + timedelta(days=1)) for start in starts]


def find_date(query: Query) -> DatedQuery | None:
    """Return the date of a query of words that must all match, None if it has no full date."""
    nodes = query.root.nodes if isinstance(query.root, And) else (query.root,)
    words = [_word(node) if isinstance(node, Leaf) else "" for node in nodes]
    for at, word in enumerate(words):
        if days := _valid(normalize_date(word)):
            return _dated(nodes, at, at + 1, days)
    text = " ".join(words)
    for pattern in _patterns():
        if match := pattern.search(text):
            month = _months()[match["month"]]
            days = _valid((f"{match['year']}-{month:02}-{int(match['day']):02}",))
            first = text.count(" ", 0, match.start())
            if days:
                return _dated(nodes, first, first + match.group().count(" ") + 1, days)
    return None


def _dated(nodes: tuple[Node, ...], start: int, end: int, days: tuple[date, ...]) -> DatedQuery:
    rest = (*nodes[:start], *nodes[end:])
    return DatedQuery(days, end - start, Query(And(rest)) if rest else None)


def _word(leaf: Leaf) -> str:
    """Return a plain word without punctuation around it, empty for any other leaf."""
    if leaf.phrase or leaf.prefix or leaf.field or leaf.exact or " " in leaf.text:
        return ""
    return strip_marks(fold(leaf.text)).strip(".,;")


def _valid(candidates: tuple[str, ...]) -> tuple[date, ...]:
    days = []
    for written in candidates:
        try:
            days.append(date.fromisoformat(written))
        except ValueError:
            continue
    return tuple(days)


@lru_cache(maxsize=1)
def _months() -> dict[str, int]:
    return {name: number for number, name in _names(MONTHS)}


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns "[weekday] 15 March 2024" and "[weekday] March 15 2024"."""
    weekday = f"(?:(?:{'|'.join(name for _, name in _names(WEEKDAYS))}) (?:den |le )?)?"
    month, year = f"(?P<month>{'|'.join(_months())})", "(?:del? )?(?P<year>[12][0-9]{3})"
    day = "(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|er)?"
    orders = (f"{day} (?:de |of )?{month} {year}", f"{month} {day} {year}")
    return tuple(re.compile(rf"(?<!\S){weekday}{order}(?!\S)") for order in orders)


def _names(names: Mapping[int, object]) -> list[tuple[int, str]]:
    """Return the names in all languages, from Django's catalogs, which this site shows in none."""
    return [
        (number, strip_marks(fold(catalog.gettext(str(name)))))
        for catalog in map(trans_real.translation, LANGUAGES)
        for number, name in names.items()
    ]
