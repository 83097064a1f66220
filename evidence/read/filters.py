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
from evidence.access.ranking.scores import matches_condition
from evidence.access.record_counts import list_record_ids
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, join_sql
from evidence.declarations.values import parse_instant
from evidence.errors import InvalidRequest
from evidence.parameters import KeyedValue
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.query import QueryError, parse
from evidence.search.analysis.tsquery import to_tsquery
from evidence.search.query_planner import group_by_grant_and_language, lexeme_codes

MAX_FILTERS_CHECKED = 8


@dataclass(frozen=True, slots=True)
class FilterValues:
    """The filters of a complete result that no visible record meets by itself.

    ``witnesses`` has one record (connection, key, field) for each of the others, which exist.
    """

    unmatched: Sequence[KeyedValue]
    witnesses: Sequence[tuple[str, str, str]]


def _words_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field has the words of a search query, without phrases."""
    field = visible.filter_field(name, param=param)
    if not field.lexical:
        searchable = filter(visible.can_filter_by, visible.stream.lexical_fields)
        searched = ", ".join(searchable) or "none"
        raise InvalidRequest(
            message=f"words needs a searchable field: {searched}. Use contains for {name!r}.",
            param=param,
        )
    try:
        query = parse(text)
    except QueryError as error:
        raise InvalidRequest(message=error.message, param=param, reason=error.code) from error
    branches = []
    for group in group_by_grant_and_language(visible):
        languages = group.connections[0].languages
        if needs_verification(query, languages=languages):
            raise InvalidRequest(
                message="words takes words, prefix* and OR; contains takes a phrase.", param=param
            )
        codes = {name: lexeme_codes(group)[name]}
        tsquery = to_tsquery(query, codes=codes, languages=languages)
        ids = list(group.connection_for)
        branches.append(matches_condition(ids, visible.stream.name, tsquery or ""))
    return SQL(" AND (") + join_sql(" OR ", branches) + SQL(")")


_CONDITIONS = {
    "ne": excludes_filter,
    "contains": contains_filter,
    "words": _words_filter,
}


def parse_filters(visible: VisibleRecords, filters: Sequence[KeyedValue]) -> list[SQL]:
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
    visible: VisibleRecords, filters: Sequence[KeyedValue], *, is_empty: bool
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
