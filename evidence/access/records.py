"""Read pages of visible records, with hidden fields removed.

All statements are composed of constant SQL text; values are parameters, and each added condition
can only exclude rows.

A read over several connections is one statement. Connections with the same terms for time and
records form a group. Each connection of a group has its own subquery, which reads in index order,
so the cost of a page does not depend on the rows outside of it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import orjson
from typing_extensions import override

from evidence.access.scope import (
    ConnectionFacts,
    GrantedStream,
    Only,
    TimeRange,
    VisibleStream,
)
from evidence.access.sql import (
    BLOB_TABLES,
    SQL,
    ConnectionGroup,
    SortPartition,
    TimeBound,
    fetch_prepared,
    fill,
    grant_condition,
    join_sql,
    union_all,
    value_table,
)
from evidence.declarations.declaration import Field
from evidence.declarations.storage_layout import SLOTS
from evidence.errors import (
    AmbiguousConnection,
    InvalidSort,
    NotFound,
)
from evidence.models.owners import current_owner

ALL_COLUMNS: Final = SQL(
    "r.connection_id, r.record_key, r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text"
)


class RecordKey(NamedTuple):
    """A record of any stream, identified within its connection."""

    connection_id: str
    record_key: str


@dataclass(frozen=True, slots=True)
class Keyset:
    """The sort key of a record, for keyset pagination. Records without a ``sort_key`` come last."""

    sort_key: str | None
    record_key: str
    connection_id: str


@dataclass(frozen=True, slots=True)
class VisibleRecord:
    """A record without hidden fields. ``emitted_at`` is the latest over the visible fields."""

    connection: ConnectionFacts
    grant_id: str | None
    record_key: str
    data: dict[str, Any]
    emitted_at: datetime
    position: Keyset

    @property
    def version(self) -> str:
        """Return a digest of the visible data; changes of hidden fields do not change it."""
        canonical = orjson.dumps(self.data, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:32]


PAGE: Final = """
-- One page of records. Part: the first rows of each connection, of those with a sort key and of those without.
-- One query per list.
SELECT u.* FROM ({rows}) u ORDER BY {order} LIMIT {limit}
"""
ALL_ROWS: Final = """
SELECT {columns} FROM {table}
WHERE r.owner_id = {owner} AND r.connection_id = ANY({connections}){terms}{where}
"""
"""The visible rows of connections with the same terms."""
ALL_NAMED_ROWS: Final = """
SELECT {columns} FROM {connections} CROSS JOIN unnest({keys}::text[]) AS n(key){row}
WHERE TRUE{where}
"""
"""The same where the grant names the keys."""
IS_RECORD_WITH: Final = """
 AND (r.connection_id, r.stream, r.record_key) IN (
    SELECT r.connection_id, r.stream, r.record_key FROM evidence_record r
    WHERE r.owner_id = {owner} AND r.connection_id = ANY({connections}) AND r.stream = {stream}{where}
)"""
HAS_RECORD_WITH: Final = """
 AND (SELECT true FROM (SELECT r.connection_id, r.record_key) AS k{record}) IS TRUE"""
"""IS TRUE, because no row is NULL, and ``excluded_rows`` negates the condition."""


class VisibleRecords(VisibleStream):
    """The visible records of one stream of one source."""

    where: tuple[SQL, ...] = ()
    period: tuple[SQL, ...] = ()
    """Conditions on the consent time, which every table of records has."""

    def filter(self, where: Sequence[SQL], *, period: Sequence[SQL] = ()) -> Self:
        """Return the records that also satisfy conditions of ``evidence.read.filters``."""
        filtered = super().restricted_to(*self.granted)
        filtered.where = (*self.where, *where)
        filtered.period = (*self.period, *period)
        return filtered

    @override
    def restricted_to(self, *granted: GrantedStream) -> Self:
        restricted = super().restricted_to(*granted)
        restricted.where, restricted.period = self.where, self.period
        return restricted

    @cached_property
    def groups(self) -> tuple[ConnectionGroup, ...]:
        ids_by_terms: dict[tuple[object, object], list[str]] = {}
        for grant in self.granted:
            ids = ids_by_terms.setdefault((grant.terms.time, grant.terms.records), [])
            ids.extend(facts.connection_id for facts in grant.connections)
        period = join_sql("", self.period)
        return tuple(
            ConnectionGroup(
                self.stream.name,
                ids,
                grant_condition(self.stream.name, time, records)
                + period
                + self._where(ids, hides=time is not None or isinstance(records, Only)),
                sorted(records.names) if isinstance(records, Only) else None,
                time if isinstance(time, TimeRange) else None,
            )
            for (time, records), ids in ids_by_terms.items()
        )

    def _where(self, connection_ids: list[str], *, hides: bool) -> SQL:
        """Return ``where`` as a subquery, because ``r`` may be another table than the records.

        Where a grant hides some records, each row looks its record up by key, so that none that it
        hides is read. Else the records with ``where`` are found at once.
        """
        if not self.where:
            return SQL("")
        if hides:
            group = ConnectionGroup(self.stream.name, [], join_sql("", self.where))
            row = group.join_row(SQL("k.connection_id"), "k.record_key")
            return fill(HAS_RECORD_WITH, record=row)
        return fill(
            IS_RECORD_WITH,
            owner=current_owner(),
            connections=connection_ids,
            stream=self.stream.name,
            where=join_sql("", self.where),
        )

    def page(
        self,
        *,
        limit: int,
        descending: bool,
        after: Keyset | None = None,
        where: Sequence[SQL] = (),
        by: Field | None = None,
    ) -> list[VisibleRecord]:
        """Return at most ``limit`` records after a keyset, in the order of the stream. One query.

        Records without a cursor value come last in both directions; record key and connection break
        ties. ``by`` is a number or time to sort by instead, which reads every row.
        """
        direction = "DESC" if descending else "ASC"
        columns = ALL_COLUMNS
        if by is not None:
            value = self._sort_value(by)
            columns += SQL(", ") + value + SQL(" AS sort_value, (") + value + SQL(")::text")
        branches = (
            branch
            for partition in self._sort_partitions(direction, by)
            for group in self.groups
            for conditions, is_range in [self._by_order(group, where, by)]
            for branch in group.first_rows(
                columns,
                partition,
                [*conditions, *_after_keyset(after, partition, descending)],
                limit=limit,
                is_range=is_range,
            )
        )
        order = f"u.record_key {direction}, u.connection_id {direction}"
        sort_value = "u.sort_key" if by is None else "u.sort_value"
        if self.in_time_order or by is not None:
            order = f"({sort_value} IS NULL), {sort_value} {direction}, {order}"
        statement = fill(PAGE, rows=union_all(branches), order=SQL(order), limit=limit)
        rows = fetch_prepared(statement)
        return [self.project(row) if by is None else self._sorted(row) for row in rows]

    def _by_order(
        self, group: ConnectionGroup, where: Sequence[SQL], by: Field | None
    ) -> tuple[list[SQL], bool]:
        """Return conditions for a page in the order of time, and whether they are a range of that order.

        The sort key is made of the time, so the same rows satisfy them. Without them, a page of an old
        time range reads everything before it, because the plan expects the range to be spread over
        the order (tests/access/test_plans.py).
        """
        name = self.stream.cursor_field or ""
        field = self.stream.fields.get(name)
        is_timed = field is not None and field.kind in ("time", "date") and self.in_time_order
        if by is not None or field is None or not is_timed:
            return list(where), False

        def bound(operator: str, instant: datetime) -> SQL:
            # A day has a key, and a moment within it has none of its own.
            sign = SQL_OPERATORS[operator if field.kind == "time" else f"{operator[:2]}e"]
            return SQL(f" AND r.sort_key {sign} %s", (field.time_key(instant),))

        times = [each for each in where if isinstance(each, TimeBound) and each.field == name]
        bounds = [bound(each.operator, each.instant) for each in times]
        if group.time is not None and name == self.stream.consent_time_field:
            ends = (("gte", group.time.since), ("lt", group.time.until))
            bounds += [bound(operator, end) for operator, end in ends if end is not None]
        replaced = times if field.kind == "time" else []
        return [*(each for each in where if each not in replaced), *bounds], bool(bounds)

    def _sorted(self, row: tuple[Any, ...]) -> VisibleRecord:
        """Return the record of a row that ends with its sort value and the text of it."""
        return replace(self.project(row[:6]), position=Keyset(row[-1], row[1], row[0]))

    def _sort_value(self, by: Field) -> SQL:
        return (
            number_expression(self, by) if by.kind == "number" else SQL(str(typed_column(self, by)))
        )

    def get(self, record_key: str) -> list[VisibleRecord]:
        """Return the record from each connection that has it. One query."""
        statement = self.key_query(record_key)
        return [self.project(row) for row in fetch_prepared(statement)]

    def get_many(self, record_keys: Sequence[str]) -> list[VisibleRecord]:
        """Return the records with these keys from each connection that has them. One query."""
        condition = SQL(" AND r.record_key = ANY(%s)", (list(record_keys),))
        return [self.project(row) for row in fetch_prepared(self.select(ALL_COLUMNS, [condition]))]

    def key_query(self, record_key: str, columns: SQL = ALL_COLUMNS) -> SQL:
        """Return ``SELECT columns`` over the record ``r`` from each connection that has it."""
        partition = SortPartition(SQL("r.record_key"))
        by_key = (replace(group, record_keys=[record_key]) for group in self.groups)
        return union_all(
            branch
            for group in by_key
            for branch in group.first_rows(columns, partition, [], limit=1)
        )

    def _sort_partitions(self, direction: str, by: Field | None) -> list[SortPartition]:
        by_key = SQL(f"r.record_key {direction}")
        if by is None and not self.in_time_order:
            return [SortPartition(by_key)]
        value = SQL("r.sort_key") if by is None else self._sort_value(by)
        by_value = value + SQL(f" {direction}, ") + by_key
        kind = (
            ""
            if by is None
            else "::text::numeric"
            if by.kind == "number"
            else "::text::timestamptz"
        )
        return [
            SortPartition(by_value, SQL(" AND ") + value + SQL(" IS NOT NULL"), value, kind),
            # The sort key is null throughout, but naming it lets the index provide the order.
            SortPartition(by_value, SQL(" AND ") + value + SQL(" IS NULL")),
        ]

    def select(
        self,
        columns: SQL,
        where: Sequence[SQL] = (),
        *,
        source: str = "evidence_record r",
    ) -> SQL:
        """Return ``SELECT columns`` over every visible row ``r`` that satisfies ``where``."""
        branches = []
        for group in self.groups:
            parts = {"columns": columns, "where": join_sql("", where)}
            if group.record_keys is None or source == BLOB_TABLES:
                branches.append(
                    fill(
                        ALL_ROWS,
                        **parts,
                        table=SQL(source),
                        owner=current_owner(),
                        connections=group.connection_ids,
                        terms=group.condition,
                    )
                )
            else:
                ids = [(id_,) for id_ in group.connection_ids]
                branches.append(
                    fill(
                        ALL_NAMED_ROWS,
                        **parts,
                        connections=value_table("c", {"id": "text"}, ids),
                        keys=group.record_keys,
                        row=group.join_row(SQL("c.id"), "n.key", source),
                    )
                )
        return union_all(branches)

    def excluded_rows(self) -> SQL:
        """Return a condition on rows ``r`` of the same stream that are not among these."""
        condition = SQL("")
        for group in self.groups:
            included = SQL("r.connection_id = ANY(%s)", (group.connection_ids,)) + group.condition
            condition += SQL(" AND NOT (") + included + SQL(")")
        return condition

    def project(self, row: tuple[Any, ...]) -> VisibleRecord:
        """Return the record in a row of ``ALL_COLUMNS``, without the hidden fields."""
        connection_id, record_key, sort_key, emitted_at, field_emitted, data = row
        grant = self.grant_for[connection_id]
        visible = grant.terms.fields.project(orjson.loads(data))
        return VisibleRecord(
            connection=self.connection_for[connection_id],
            grant_id=grant.grant_id,
            record_key=record_key,
            data=visible,
            emitted_at=_latest_emitted(visible, emitted_at, field_emitted),
            position=Keyset(sort_key if self.in_time_order else None, record_key, connection_id),
        )


def _after_keyset(after: Keyset | None, partition: SortPartition, descending: bool) -> list[SQL]:  # noqa: FBT001
    if after is None:
        return []
    sign = "<" if descending else ">"
    if partition.key is not None:
        if after.sort_key is None:
            return [SQL(" AND false")]
        place = (after.sort_key, after.record_key, after.connection_id)
        row = SQL(" AND (") + partition.key
        return [
            row
            + SQL(f", r.record_key, r.connection_id) {sign} (%s{partition.cast}, %s, %s)", place)
        ]
    if after.sort_key is not None:
        return []
    return [
        SQL(
            f" AND (r.record_key, r.connection_id) {sign} (%s, %s)",
            (after.record_key, after.connection_id),
        )
    ]


def _latest_emitted(
    visible: Mapping[str, Any], emitted_at: datetime, field_emitted: str | None
) -> datetime:
    if field_emitted is None:
        return emitted_at
    times: dict[str, str] = orjson.loads(field_emitted)
    visible_times = [
        datetime.fromisoformat(times[name]) if name in times else emitted_at for name in visible
    ]
    return max(visible_times, default=emitted_at)


SLOT_COLUMNS: Final = {"n": "numbers", "t": "times", "w": "words"}
SQL_OPERATORS: Final = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
CONSENT_TIME_CONDITION: Final = " AND r.consent_time "
"""How a condition on the consent time begins, which the index on time answers."""


def link_expression(visible: VisibleStream, name: str) -> SQL:
    """Return a foreign key or thread as an expression over ``r``: its column, or its JSON member."""
    column = visible.layout.get("links", {}).get(name)
    return SQL("r.data->>%s", (name,)) if column is None else SQL(f"r.link_{int(column)}")


def number_expression(visible: VisibleStream, field: Field) -> SQL:
    """Return the value of a number field of ``r``; null where it is no number."""
    column = typed_column(visible, field)
    if column is not None:
        return SQL(column)
    return SQL(
        "(CASE WHEN jsonb_typeof(r.data->%s) = 'number' THEN (r.data->>%s)::numeric END)",
        (field.name, field.name),
    )


def typed_column(visible: VisibleStream, field: Field) -> str | None:
    """Return the typed column of a field as an expression over ``r``, or None if it has none."""
    assigned = visible.layout["typed"].get(field.name)
    if assigned is None or SLOTS.get(field.kind) != assigned[0]:
        return None
    slot, position = assigned
    return f"r.{SLOT_COLUMNS[slot]}[{int(position)}]"


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records of a stream, and whether more follow."""

    records: Sequence[VisibleRecord]
    has_more: bool


def read_page(
    visible: VisibleRecords,
    *,
    limit: int,
    descending: bool,
    after: Keyset | None,
    where: Sequence[SQL],
    by: Field | None = None,
) -> RecordPage:
    """Return up to ``limit`` records after a position; one query."""
    rows = visible.page(limit=limit + 1, descending=descending, after=after, where=where, by=by)
    return RecordPage(rows[:limit], has_more=len(rows) > limit)


def get_record(visible: VisibleRecords, record_key: str) -> VisibleRecord:
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


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """The order of a list: newest first, or by ``field`` instead of the cursor field."""

    descending: bool
    field: Field | None = None


def parse_order(visible: VisibleRecords, *, order: str | None, sort: str | None) -> RecordOrder:
    """Return the order. ``sort`` names the cursor field, a number or a time, - for descending."""
    descending = order != "asc"
    if sort is None:
        return RecordOrder(descending)
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
    return RecordOrder(by_sort, None if name == visible.stream.cursor_field else field)


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


def project_fields(record: VisibleRecord, fields: frozenset[str] | None) -> dict[str, Any]:
    """Return the data of a record with only these fields."""
    if fields is None:
        return record.data
    return {name: value for name, value in record.data.items() if name in fields}
