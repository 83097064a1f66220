"""List records, get one record, and report total and time range."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.granted_streams import has_own_time, time_filter, typed_column
from evidence.access.record_counts import count_records as count_records
from evidence.access.record_counts import list_record_ids, records_at, time_bounds
from evidence.access.records import Keyset, VisibleRecord, VisibleRecords
from evidence.access.sql import SQL
from evidence.declarations.declaration import Field
from evidence.declarations.values import TIME_KEYS
from evidence.errors import AmbiguousConnection, InvalidRequest, InvalidSort, NotFound


@dataclass(frozen=True, slots=True)
class Page:
    records: Sequence[VisibleRecord]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Total and time range of a list.

    ``witnesses`` are the records that these disclose, by connection and key: the earliest and the
    latest, or all of a small list.
    """

    total: int
    earliest_at: datetime | None
    latest_at: datetime | None
    witnesses: Sequence[tuple[str, str]]


def page(
    visible: VisibleRecords,
    *,
    limit: int,
    descending: bool,
    after: Keyset | None,
    where: Sequence[SQL],
    by: Field | None = None,
) -> Page:
    """Return up to ``limit`` records after a position; one query."""
    rows = visible.page(limit=limit + 1, descending=descending, after=after, where=where, by=by)
    return Page(rows[:limit], has_more=len(rows) > limit)


def get(visible: VisibleRecords, record_key: str) -> VisibleRecord:
    """Return the record with this key; one query, whether it is visible, hidden or missing.

    Raises NotFound, and AmbiguousConnection naming only the connections that show the record.
    """
    if "\x00" in record_key:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    records = visible.get(record_key)
    if not records:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    if len(records) > 1:
        raise ambiguous_record(
            visible, record_key, [record.connection.connection_id for record in records]
        )
    return records[0]


def ambiguous_record(
    visible: VisibleRecords, record_key: str, connection_ids: Sequence[str]
) -> AmbiguousConnection:
    """Return the error that names the connections that have a record with this key."""
    error = AmbiguousConnection(
        [c for c in visible.candidates() if c["connection_id"] in connection_ids],
        message="The record exists in several connections; add connection_id.",
    )
    return error.disclosing(*((c, visible.stream.name, record_key) for c in connection_ids))


def count_with_witnesses(
    visible: VisibleRecords, where: Sequence[SQL], page: Page
) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return the total and the records that it discloses, by connection and key.

    With filters, a total below ``SMALL_GROUP`` discloses each of its records. One query, and a
    second one if the page does not contain all of them.
    """
    total = count_records(visible, where)
    if not where or total >= SMALL_GROUP:
        return total, ()
    if len(page.records) == total:
        return total, [(r.connection.connection_id, r.record_key) for r in page.records]
    return total, list_record_ids(visible, where, limit=SMALL_GROUP)


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a list: newest first, or by ``field`` instead of the cursor field."""

    descending: bool
    field: Field | None = None


def parse_order(visible: VisibleRecords, *, order: str | None, sort: str | None) -> Order:
    """Return the order. ``sort`` names the cursor field, a number or a time, - for descending."""
    descending = order != "asc"
    if sort is None:
        return Order(descending)
    name = sort.lstrip("+-")
    field = visible.stream.fields.get(name)
    if field is not None:
        field = visible.filter_field(name, param="sort")
    if field is None or not is_sortable(visible, field):
        allowed = ", ".join(sortable_fields(visible)) or "none"
        raise InvalidSort(message=f"sort takes a number or time: {allowed}.", param="sort")
    by_sort = sort.startswith("-")
    if order is not None and by_sort != descending:
        raise InvalidSort(message="sort and order contradict each other; omit one.", param="sort")
    return Order(by_sort, None if name == visible.stream.cursor_field else field)


def sortable_fields(visible: VisibleRecords) -> list[str]:
    """Return the fields that ``sort`` takes under this grant, the cursor field first."""
    names = [
        name
        for name, field in visible.stream.fields.items()
        if is_sortable(visible, field) and visible.can_filter_by(name)
    ]
    return sorted(names, key=lambda name: name != visible.stream.cursor_field)


def is_sortable(visible: VisibleRecords, field: Field) -> bool:
    """Return whether records can be sorted by a field: the cursor field, a number or a time."""
    if field.name == visible.stream.cursor_field or field.kind == "number":
        return True
    return field.kind in ("time", "date") and typed_column(visible, field) is not None


def future_records(
    visible: VisibleRecords, where: Sequence[SQL], page: Page, *, since: date
) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return the number of matching records since a day in UTC, and the records that it discloses.

    No query unless the first record of the page is one of them.
    """
    name = visible.stream.cursor_field
    if not page.records or not has_own_time(visible) or name != visible.stream.event_time_field:
        return 0, ()
    newest = page.records[0].position.sort_key or ""
    if newest[:1] not in TIME_KEYS or newest[1:] < since.isoformat():
        return 0, ()
    start = datetime.combine(since, time.min, UTC)
    return count_with_witnesses(
        visible, [*where, time_filter(visible, "gte", start, param="before")], page
    )


def select_fields(
    visible: VisibleRecords, *, fields: Sequence[str] | None, view: str | None
) -> frozenset[str] | None:
    """Return the fields in ``fields`` or of ``view``, or None for all granted fields.

    The primary key is always included.
    """
    if fields is not None and view is not None:
        raise InvalidRequest(message="Give fields or view, not both.", param="view")
    if view is not None:
        fields = _view_fields(visible, view)
    if fields is None:
        return None
    for name in fields:
        visible.shown_field(name, param="fields", among=fields)
    return frozenset(fields) | frozenset(visible.stream.primary_key)


def project_fields(record: VisibleRecord, fields: frozenset[str] | None) -> dict[str, Any]:
    """Return the data of a record with only these fields."""
    if fields is None:
        return record.data
    return {name: value for name, value in record.data.items() if name in fields}


def window(visible: VisibleRecords, where: Sequence[SQL]) -> Window:
    """Return total and time range. Raises InvalidRequest if the time field is not granted."""
    if not visible.shows(visible.stream.consent_time_field):
        raise InvalidRequest(
            message="window needs the time field of this stream, which the grant does not include.",
            param="window",
        )
    earliest, latest = time_bounds(visible, where)
    total = count_records(visible, where)
    if total < SMALL_GROUP:
        witnesses = list_record_ids(visible, where, limit=SMALL_GROUP)
    else:
        witnesses = records_at(visible, (earliest, latest), where)
    return Window(total, earliest, latest, witnesses)


def granted_views(visible: VisibleRecords) -> tuple[str, ...]:
    """Return the views that the grants include, with all of their fields."""
    return tuple(
        name
        for name, view in visible.stream.views.items()
        if all(grant.terms.views.allows(name) for grant in visible.granted)
        and all(visible.shows(field) for field in view.fields)
    )


def _view_fields(visible: VisibleRecords, name: str) -> Sequence[str]:
    allowed = granted_views(visible)
    if name not in allowed:
        raise InvalidRequest(
            message=f"The grant does not include this view; these: {', '.join(allowed) or 'none'}.",
            param="view",
        )
    return visible.stream.views[name].fields
