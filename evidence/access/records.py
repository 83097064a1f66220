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
from typing import Any, NamedTuple, Self

import orjson
from typing_extensions import override

from evidence.access.granted_streams import (
    GrantedStream,
    VisibleStream,
    number_expression,
    typed_column,
)
from evidence.access.scope import ConnectionFacts, Only
from evidence.access.sql import (
    BLOB_TABLES,
    SQL,
    ConnectionGroup,
    SortPartition,
    fetch_prepared,
    grant_condition,
    join_sql,
    owner_is,
    union_all,
    value_table,
)
from evidence.declarations.declaration import Field
from evidence.models.owners import current_owner

RECORD_COLUMNS = (
    "r.connection_id, r.record_key, r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text"
)
ALL_COLUMNS = SQL(RECORD_COLUMNS)


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


class VisibleRecords(VisibleStream):
    """The visible records of one stream of one source."""

    where: tuple[SQL, ...] = ()
    period: tuple[SQL, ...] = ()
    """Conditions on the consent time, which every table of records has."""

    def filter(self, where: Sequence[SQL], *, period: Sequence[SQL] = ()) -> Self:
        """Return the records that also satisfy conditions of ``granted_streams``."""
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
            test = SQL(" AND (SELECT true FROM (SELECT r.connection_id, r.record_key) AS k")
            # IS TRUE, because no row is NULL, and `excluded_rows` negates the condition.
            return test + group.join_row(SQL("k.connection_id"), "k.record_key") + SQL(") IS TRUE")
        condition = SQL(
            " AND (r.connection_id, r.stream, r.record_key) IN"
            " (SELECT r.connection_id, r.stream, r.record_key FROM evidence_record r"
            " WHERE r.owner_id = %s AND r.connection_id = ANY(%s) AND r.stream = %s",
            (current_owner(), connection_ids, self.stream.name),
        )
        return condition + join_sql("", self.where) + SQL(")")

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
            for branch in group.first_rows(
                columns,
                partition,
                [*where, *_after_keyset(after, partition, descending)],
                limit=limit,
            )
        )
        order = f"u.record_key {direction}, u.connection_id {direction}"
        sort_value = "u.sort_key" if by is None else "u.sort_value"
        if self.in_time_order or by is not None:
            order = f"({sort_value} IS NULL), {sort_value} {direction}, {order}"
        statement = SQL("SELECT u.* FROM (") + union_all(branches)
        statement += SQL(f") u ORDER BY {order} LIMIT %s", (limit,))
        rows = fetch_prepared(statement)
        return [self.project(row) if by is None else self._sorted(row) for row in rows]

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
        end = join_sql("", where)
        for group in self.groups:
            if group.record_keys is None or source == BLOB_TABLES:
                rows = SQL(f" FROM {source} WHERE ") + owner_is()
                rows += SQL("r.connection_id = ANY(%s)", (group.connection_ids,))
                branches.append(rows + group.condition + end)
                continue
            keys = SQL(" CROSS JOIN unnest(%s::text[]) AS n(key)", (group.record_keys,))
            row = keys + group.join_row(SQL("c.id"), "n.key", source) + SQL(" WHERE TRUE")
            ids = [(id_,) for id_ in group.connection_ids]
            branches.append(SQL(" FROM ") + value_table("c", {"id": "text"}, ids) + row + end)
        return union_all(SQL("SELECT ") + columns + rows for rows in branches)

    def excluded_rows(self) -> SQL:
        """Return a condition on rows ``r`` of the same stream that are not among these."""
        condition = SQL("")
        for group in self.groups:
            included = SQL("r.connection_id = ANY(%s)", (group.connection_ids,)) + group.condition
            condition += SQL(" AND NOT (") + included + SQL(")")
        return condition

    def project(self, row: tuple[Any, ...]) -> VisibleRecord:
        """Return the record in a row of ``RECORD_COLUMNS``, without the hidden fields."""
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
