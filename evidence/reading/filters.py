"""Turn `filter`, `after` and `before` into conditions, and name filter values that nothing has."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evidence.access.granted_streams import (
    contains_filter,
    equals_filter,
    excludes_filter,
    includes_filter,
    range_filter,
    time_filter,
)
from evidence.access.record_counts import list_record_ids
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL
from evidence.declarations.values import parse_instant
from evidence.errors import InvalidRequest
from evidence.search.query_planner import words_filter

Filter = tuple[tuple[str, ...], str]
"""The keys in brackets and the value: ``filter[size][gte]=1`` is ``(("size", "gte"), "1")``."""
_CONDITIONS = {
    "ne": excludes_filter,
    "contains": contains_filter,
    "words": words_filter,
}
MAX_FILTERS_CHECKED = 8


@dataclass(frozen=True, slots=True)
class FilterValues:
    """The filters of a complete result that no visible record meets by itself.

    ``witnesses`` has one record (connection, key, field) for each of the others, which exist.
    """

    unmatched: Sequence[Filter]
    witnesses: Sequence[tuple[str, str, str]]


def parse_filters(visible: VisibleRecords, filters: Sequence[Filter]) -> list[SQL]:
    """Return the conditions of ``filter`` parameters, checked against grant and declaration.

    All must hold, except that the ``in`` values of one field are alternatives.
    """
    conditions, alternatives = [], dict[str, list[str]]()
    for keys, value in filters:
        if keys[1:] == ("in",):
            alternatives.setdefault(keys[0], []).append(value)
        else:
            conditions.append(_condition(visible, keys, value))
    return conditions + [
        includes_filter(visible, name, texts, param=parameter_name((name, "in")))
        for name, texts in alternatives.items()
    ]


def parse_period(visible: VisibleRecords, after: str | None, before: str | None) -> list[SQL]:
    """Return the conditions of ``after`` (inclusive) and ``before`` (exclusive), by the stream's time."""
    conditions = []
    for param, operator, text in (("after", "gte", after), ("before", "lt", before)):
        if text is None:
            continue
        conditions.append(time_filter(visible, operator, parse_time(text, param), param=param))
    return conditions


def parse_time(text: str, param: str) -> datetime:
    """Return the instant of a date, which means midnight in UTC, or a time with an offset."""
    instant = parse_instant(text)
    if instant is None:
        raise InvalidRequest(
            message=f"{param} takes a date or a time with an offset, such as 2026-11-21 or "
            "2026-11-21T08:30:00Z.",
            param=param,
        )
    return instant


def find_unmatched(
    visible: VisibleRecords, filters: Sequence[Filter], *, is_empty: bool
) -> FilterValues:
    """Return which filters alone leave no visible record. One query per filter.

    Where the result is not empty, this can only be one of several ``in`` values.
    """
    unmatched, witnesses = [], []
    possible = [each for each in filters if is_empty or each[0][1:] == ("in",)]
    for keys, value in possible[:MAX_FILTERS_CHECKED]:
        found = list_record_ids(visible, [_condition(visible, keys, value)], limit=1)
        if found:
            witnesses += [(connection_id, key, keys[0]) for connection_id, key in found]
        else:
            unmatched.append((keys, value))
    return FilterValues(unmatched, witnesses)


def parameter_name(keys: Sequence[str]) -> str:
    return "filter" + "".join(f"[{key}]" for key in keys)


def _condition(visible: VisibleRecords, keys: tuple[str, ...], value: str) -> SQL:
    param = parameter_name(keys)
    match keys:
        case (name,) | (name, "in"):
            return equals_filter(visible, name, value, param=param)
        case (name, operator) if operator in _CONDITIONS:
            return _CONDITIONS[operator](visible, name, value, param=param)
        case (name, operator):
            return range_filter(visible, name, operator, value, param=param)
    raise InvalidRequest(
        message="Use filter[field]=value or filter[field][operator]=value.", param=param
    )
