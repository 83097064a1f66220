"""Turn `filter`, `after` and `before` into conditions, and name filter values that nothing has."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import orjson

from evidence.access.ranking.scores import matches_condition
from evidence.access.record_counts import list_record_ids
from evidence.access.records import (
    CONSENT_TIME_CONDITION,
    SQL_OPERATORS,
    VisibleRecords,
    link_expression,
    typed_column,
)
from evidence.access.sql import SQL, TimeBound, join_sql
from evidence.declarations.declaration import Field, array_item
from evidence.declarations.values import (
    FilterValue,
    FilterValueError,
    parse_filter_value,
    parse_instant,
)
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


def equals_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field equals ``text``, or that an array contains it."""
    field = visible.filter_field(name, param=param)
    return SQL(" AND ") + _equals(visible, field, text, param)


def key_filter(visible: VisibleRecords, name: str, key: str) -> SQL:
    """Return a condition that a foreign key or thread is ``key``, which its column answers."""
    name = visible.filter_field(name, param="key").name
    return SQL(" AND ") + link_expression(visible, name) + SQL(" = %s", (key,))


def includes_filter(visible: VisibleRecords, name: str, texts: Sequence[str], *, param: str) -> SQL:
    """Return a condition that a field equals one of the texts, or that an array contains one."""
    field = visible.filter_field(name, param=param)
    equals = [_equals(visible, field, text, param) for text in texts]
    return SQL(" AND (") + join_sql(" OR ", equals) + SQL(")")


def excludes_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field does not equal ``text``, or is missing."""
    field = visible.filter_field(name, param=param)
    return SQL(" AND NOT coalesce(") + _equals(visible, field, text, param) + SQL(", false)")


def contains_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a text, or a text of an array, contains ``text`` in any case."""
    field = visible.filter_field(name, param=param)
    item = array_item(visible.stream, field) if field.kind == "array" else field
    if item is None or item.kind != "string":
        raise InvalidRequest(
            message=f"contains takes a text field; {name!r} is {field.kind}.", param=param
        )
    if field.kind == "array":
        return SQL(
            " AND jsonb_typeof(r.data->%s) = 'array' AND EXISTS (SELECT FROM"
            " jsonb_array_elements_text(CASE WHEN jsonb_typeof(r.data->%s) = 'array'"
            " THEN r.data->%s END) x WHERE strpos(lower(x), lower(%s)) > 0)",
            (name, name, name, text),
        )
    return SQL(" AND strpos(lower(r.data->>%s), lower(%s)) > 0", (name, text))


def time_filter(visible: VisibleRecords, operator: str, instant: datetime, *, param: str) -> SQL:
    """Return a condition on the stream's own time. Raises ``InvalidRequest`` if it has none."""
    name = visible.stream.event_time_field
    column = None
    if name is not None:
        field = visible.filter_field(name, param=param)
        if name == visible.stream.consent_time_field:
            return _time_bound(CONSENT_TIME_CONDITION, name, operator, instant)
        column = typed_column(visible, field)
    if name is None or column is None:
        raise InvalidRequest(
            message=f"The stream {visible.stream.name!r} has no time of its own.", param=param
        )
    return _time_bound(f" AND {column} ", name, operator, instant)


def _time_bound(start: str, name: str, operator: str, instant: datetime) -> TimeBound:
    text = f"{start}{SQL_OPERATORS[operator]} %s"
    return TimeBound(text, (instant,), field=name, operator=operator, instant=instant)


def has_own_time(visible: VisibleRecords) -> bool:
    """Return whether ``time_filter`` works for the stream under this grant."""
    name = visible.stream.event_time_field
    if name is None or not visible.can_filter_by(name):
        return False
    is_consent_time = name == visible.stream.consent_time_field
    return is_consent_time or typed_column(visible, visible.stream.fields[name]) is not None


def _equals(visible: VisibleRecords, field: Field, text: str, param: str) -> SQL:
    item = array_item(visible.stream, field) if field.kind == "array" else None
    if item is not None:
        value = _parse_value(item, text, param)
        return SQL("(r.data->%s) @> %s::jsonb", (field.name, f"[{_json(value, text)}]"))
    value = _parse_value(field, text, param)
    if isinstance(value, datetime):
        column = typed_column(visible, field)
        if column is not None:
            return SQL(f"{column} = %s", (value,))
    return SQL("r.data->%s = %s::jsonb", (field.name, _json(value, text)))


def range_filter(
    visible: VisibleRecords, name: str, operator: str, text: str, *, param: str
) -> SQL:
    """Return a condition that compares a field with ``text``, by an operator that it declares."""
    field = visible.filter_field(name, param=param)
    if operator not in field.range_operators:
        declared = ", ".join(field.range_operators) or "none"
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {operator[:16]!r}; it declares: {declared}.",
            param=param,
        )
    value = _parse_value(field, text, param)
    if isinstance(value, str):
        return SQL(f' AND r.data->>%s COLLATE "C" {SQL_OPERATORS[operator]} %s', (name, value))
    # Every other type with a range operator has a typed column.
    column = typed_column(visible, field)
    if isinstance(value, datetime):
        return _time_bound(f" AND {column} ", name, operator, value)
    return SQL(f" AND {column} {SQL_OPERATORS[operator]} %s", (value,))


def _parse_value(field: Field, text: str, param: str) -> FilterValue:
    try:
        return parse_filter_value(field, text)
    except FilterValueError as error:
        raise InvalidRequest(message=str(error), param=param) from error


def _json(value: FilterValue, text: str) -> str:
    # A number may have more digits than 64 bits hold.
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return orjson.dumps(text).decode()
    return orjson.dumps(value).decode()


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


_CONDITIONS = {
    "ne": excludes_filter,
    "contains": contains_filter,
    "words": _words_filter,
}


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
