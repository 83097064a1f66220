"""Pages of records, one record, and what is said about a page as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evidence.access.aggregates import SMALL_GROUP, names_of, records_at, time_bounds
from evidence.access.aggregates import count as count
from evidence.access.granted_streams import compares, equals
from evidence.access.records import Position, VisibleRecord, VisibleRecords
from evidence.access.sql import Fragment
from evidence.errors import AmbiguousConnection, InvalidRequest, InvalidSort, NotFound

Filter = tuple[tuple[str, ...], str]
"""The keys in brackets and the value: ``filter[size][gte]=1`` is ``(("size", "gte"), "1")``."""


@dataclass(frozen=True, slots=True)
class Page:
    records: Sequence[VisibleRecord]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Window:
    """The extent of a list over its consent time. ``witnesses`` are the records that it discloses,
    by connection and key: the earliest and the latest, or all where there are few."""

    total: int
    earliest_at: datetime | None
    latest_at: datetime | None
    witnesses: Sequence[tuple[str, str]]


def page(
    visible: VisibleRecords,
    *,
    limit: int,
    descending: bool,
    after: Position | None,
    where: Sequence[Fragment],
) -> Page:
    """``limit`` records after a position; one query."""
    rows = visible.page(limit=limit + 1, descending=descending, after=after, where=where)
    return Page(rows[:limit], has_more=len(rows) > limit)


def one(visible: VisibleRecords, record_key: str) -> VisibleRecord:
    """The record of that key; one query, whether it is there, hidden or missing.

    Raises ``NotFound``, and ``AmbiguousConnection`` naming only the connections that have it.
    """
    if "\x00" in record_key:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    found = visible.named(record_key)
    if not found:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    if len(found) > 1:
        holding = {record.connection.connection_id for record in found}
        raise AmbiguousConnection(
            [each for each in visible.candidates() if each["connection_id"] in holding],
            message="The record exists under more than one connection; name one by connection_id.",
        )
    return found[0]


def chosen(visible: VisibleRecords, filters: Sequence[Filter]) -> list[Fragment]:
    """The conditions of ``filter`` parameters, each checked against grant and declaration."""
    conditions = []
    for keys, value in filters:
        param = "filter" + "".join(f"[{key}]" for key in keys)
        if len(keys) == 1:
            conditions.append(equals(visible, keys[0], value, param=param))
        elif len(keys) == 2:
            conditions.append(compares(visible, keys[0], keys[1], value, param=param))
        else:
            raise InvalidRequest(
                message="A filter is filter[field]=value or filter[field][operator]=value.",
                param=param,
            )
    return conditions


def direction(visible: VisibleRecords, *, order: str | None, sort: str | None) -> bool:
    """Whether newest comes first. ``sort`` may name the cursor field only, with an optional sign."""
    descending = order != "asc"
    if sort is None:
        return descending
    name = sort.lstrip("+-")
    if name in visible.stream.fields:
        visible.filter_field(name, param="sort")
    if name != visible.stream.cursor_field:
        allowed = visible.stream.cursor_field or "none"
        raise InvalidSort(
            message=f"The stream sorts by its cursor field only: {allowed}.", param="sort"
        )
    by_sort = sort.startswith("-")
    if order is not None and by_sort != descending:
        raise InvalidSort(message="sort and order disagree.", param="sort")
    return by_sort


def selected(
    visible: VisibleRecords, *, fields: Sequence[str] | None, view: str | None
) -> frozenset[str] | None:
    """The fields to show: those named, those of a view, or None for all that are granted.

    The primary key always stays, as the declared identity of the record.
    """
    if fields is not None and view is not None:
        raise InvalidRequest(message="Give fields or view, not both.", param="view")
    if view is not None:
        fields = _view_fields(visible, view)
    if fields is None:
        return None
    for name in fields:
        visible.shown_field(name, param="fields")
    return frozenset(fields) | frozenset(visible.stream.primary_key)


def projected(record: VisibleRecord, fields: frozenset[str] | None) -> dict[str, Any]:
    if fields is None:
        return record.data
    return {name: value for name, value in record.data.items() if name in fields}


def window(visible: VisibleRecords, where: Sequence[Fragment]) -> Window:
    """Total and extent; refused where the consent time itself is not granted."""
    if not visible.shows(visible.stream.consent_time_field):
        raise InvalidRequest(
            message="The time field of this stream is outside the grant, so no window is told.",
            param="window",
        )
    earliest, latest = time_bounds(visible, where)
    total = count(visible, where)
    if total < SMALL_GROUP:
        witnesses = names_of(visible, where, limit=SMALL_GROUP)
    else:
        witnesses = records_at(visible, (earliest, latest), where)
    return Window(total, earliest, latest, witnesses)


def _view_fields(visible: VisibleRecords, name: str) -> Sequence[str]:
    view = visible.stream.views.get(name)
    allowed = all(sight.terms.views.allows(name) for sight in visible.sights)
    if view is None or not allowed:
        views = ", ".join(visible.stream.views) or "none"
        raise InvalidRequest(
            message=f"No such view is granted; the stream declares: {views}.", param="view"
        )
    return view.fields
