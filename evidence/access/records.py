"""Rows as far as a grant shows them.

All statements are joined from constant fragments; values travel as parameters, and no fragment can
add a row: each only narrows.

Every read over several connections is one statement. Connections whose terms say the same about
time and single records form a group; each connection of a group is read in index order by a
subquery of its own, so a page costs the same however much lies outside it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import orjson
from typing_extensions import override

from evidence.access.granted_streams import Sight, VisibleStream
from evidence.access.scope import ConnectionFacts, Only, TimeRange
from evidence.access.sql import Fragment, fetched_by_one_plan, joined, within
from evidence.models.erasures import NAMING

SHOWN = (
    "r.connection_id, r.record_key, r.sort_key, r.emitted_at, r.field_emitted::text, r.data::text"
)
COLUMNS = Fragment(SHOWN)
NAMED_ONE_BY_ONE = 8
"""Up to so many connections are each named in the statement; more go through one lateral join,
whose length does not grow with them."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of a stream: ``sort_key`` None is the bucket that comes last."""

    sort_key: str | None
    record_key: str
    connection_id: str


@dataclass(frozen=True, slots=True)
class VisibleRecord:
    """A record cut to the grant. ``emitted_at`` is the latest over the fields that are left."""

    connection: ConnectionFacts
    grant_id: str | None
    record_key: str
    data: dict[str, Any]
    emitted_at: datetime
    position: Position

    @property
    def version(self) -> str:
        """Names this state of what the grant shows; hidden changes do not change it."""
        canonical = orjson.dumps(self.data, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Group:
    """Connections that are read under the same condition."""

    connection_ids: list[str]
    condition: Fragment


class VisibleRecords(VisibleStream):
    """The rows of one stream of one source, cut to the grants that cover it."""

    where: tuple[Fragment, ...] = ()

    def chosen(self, where: Sequence[Fragment]) -> Self:
        """Those of the rows that meet conditions of ``evidence.access.granted_streams`` as well."""
        fewer = super().through(*self.sights)
        fewer.where = (*self.where, *where)
        return fewer

    @override
    def through(self, *sights: Sight) -> Self:
        fewer = super().through(*sights)
        fewer.where = self.where
        return fewer

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        together: dict[tuple[object, object], list[str]] = {}
        for sight in self.sights:
            ids = together.setdefault((sight.terms.time, sight.terms.records), [])
            ids.extend(facts.connection_id for facts in sight.connections)
        return tuple(
            Group(ids, _condition(self.stream.name, time, records) + self._choice(ids))
            for (time, records), ids in together.items()
        )

    def _choice(self, connection_ids: list[str]) -> Fragment:
        """``where`` for whatever table ``r`` is: those whose records meet it."""
        if not self.where:
            return Fragment("")
        choice = Fragment(
            " AND (r.connection_id, r.stream, r.record_key) IN"
            " (SELECT r.connection_id, r.stream, r.record_key FROM evidence_record r"
            " WHERE r.connection_id = ANY(%s) AND r.stream = %s",
            (connection_ids, self.stream.name),
        )
        return choice + joined("", self.where) + Fragment(")")

    def page(
        self,
        *,
        limit: int,
        descending: bool,
        after: Position | None = None,
        where: Sequence[Fragment] = (),
    ) -> list[VisibleRecord]:
        """At most ``limit`` rows after a position, in the order of the stream; one query.

        Missing cursor values come last in both directions, ties are broken by record key and
        connection.
        """
        branches = [
            branch
            for group in self.groups
            for bucket in self._buckets(descending)
            for branch in _branches(
                group, bucket, [*where, *_beyond(after, bucket, descending)], limit
            )
        ]
        way = "DESC" if descending else "ASC"
        order = "u.connection_id"
        order = f"u.record_key {way}, {order} {way}"
        if self.in_time_order:
            order = f"(u.sort_key IS NULL), u.sort_key {way}, {order}"
        statement = Fragment("SELECT u.* FROM (") + joined(" UNION ALL ", branches)
        statement += Fragment(f") u ORDER BY {order} LIMIT %s", (limit,))
        return [self.cut(row) for row in fetched_by_one_plan(statement)]

    def named(self, record_key: str) -> list[VisibleRecord]:
        """The record of that key in each connection that has it; one query."""
        return [self.cut(row) for row in fetched_by_one_plan(self.of_key(record_key))]

    def of_key(self, record_key: str, columns: Fragment = COLUMNS) -> Fragment:
        """``SELECT columns`` over the record ``r`` of that key in each connection that has it."""
        key = Fragment(" AND r.record_key = %s", (record_key,))
        bucket = Bucket("r.record_key", present=False, narrows="")
        branches = (_branches(group, bucket, [key], 1, columns) for group in self.groups)
        return joined(" UNION ALL ", (branch for group in branches for branch in group))

    def _buckets(self, descending: bool) -> "list[Bucket]":  # noqa: FBT001 - internal
        way = "DESC" if descending else "ASC"
        by_key = f"r.record_key {way}"
        if not self.in_time_order:
            return [Bucket(by_key, present=False, narrows="")]
        return [
            Bucket(
                f"r.sort_key {way}, {by_key}", present=True, narrows=" AND r.sort_key IS NOT NULL"
            ),
            # All the same here, but named first as in the index, whose order then serves.
            Bucket(f"r.sort_key {way}, {by_key}", present=False, narrows=" AND r.sort_key IS NULL"),
        ]

    def matching(
        self,
        columns: Fragment,
        where: Sequence[Fragment] = (),
        *,
        source: str = "evidence_record r",
    ) -> Fragment:
        """``SELECT columns`` over every visible row ``r`` that all of ``where`` leave."""
        branches = []
        for group in self.groups:
            branch = Fragment("SELECT ") + columns + Fragment(f" FROM {source} WHERE ")
            branch += Fragment("r.connection_id = ANY(%s)", (group.connection_ids,))
            for condition in (group.condition, *where):
                branch += condition
            branches.append(branch)
        return joined(" UNION ALL ", branches)

    def beyond(self) -> Fragment:
        """A condition on rows ``r`` of the same stream: those that are not among these."""
        condition = Fragment("")
        for group in self.groups:
            among = Fragment("r.connection_id = ANY(%s)", (group.connection_ids,)) + group.condition
            condition += Fragment(" AND NOT (") + among + Fragment(")")
        return condition

    def cut(self, row: tuple[Any, ...]) -> VisibleRecord:
        """A row of the columns ``SHOWN``, without whatever the grant does not show."""
        connection_id, record_key, sort_key, emitted_at, field_emitted, data = row
        sight = self.sight_of[connection_id]
        fields = sight.terms.fields
        shown = {name: value for name, value in orjson.loads(data).items() if fields.allows(name)}
        return VisibleRecord(
            connection=self.facts_of[connection_id],
            grant_id=sight.grant_id,
            record_key=record_key,
            data=shown,
            emitted_at=_emitted(shown, emitted_at, field_emitted),
            position=Position(sort_key if self.in_time_order else None, record_key, connection_id),
        )


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows with a cursor value, or those without."""

    order: str
    present: bool
    narrows: str


def _branches(
    group: Group,
    bucket: Bucket,
    where: Sequence[Fragment],
    limit: int,
    columns: Fragment = COLUMNS,
) -> Iterator[Fragment]:
    """For each connection of the group its first ``limit`` rows in the order of the bucket."""
    ids = group.connection_ids
    named = [Fragment("%s", (each,)) for each in ids] if len(ids) <= NAMED_ONE_BY_ONE else []
    for connection in named or [Fragment("c.id")]:
        rows = Fragment("SELECT ") + columns + Fragment(" FROM evidence_record r WHERE ")
        rows += Fragment("r.connection_id = ") + connection + Fragment(bucket.narrows)
        for condition in (group.condition, *where):
            rows += condition
        rows += Fragment(f" ORDER BY {bucket.order} LIMIT %s", (limit,))
        if not named:
            every = Fragment("SELECT r.* FROM unnest(%s::text[]) AS c(id)", (ids,))
            rows = every + Fragment(" CROSS JOIN LATERAL (") + rows + Fragment(") r")
        yield Fragment("(") + rows + Fragment(")")


def _condition(stream: str, time: object, records: object) -> Fragment:
    """What one grant says about rows, one clause a line."""
    condition = Fragment(" AND r.stream = %s", (stream,))
    if isinstance(time, TimeRange):
        condition += within("r.consent_time", time)
    if isinstance(records, Only):
        condition += Fragment(" AND r.record_key = ANY(%s)", (sorted(records.names),))
    return condition


def _beyond(after: Position | None, bucket: Bucket, descending: bool) -> list[Fragment]:  # noqa: FBT001
    if after is None:
        return []
    sign = "<" if descending else ">"
    if bucket.present:
        return [
            Fragment(
                f" AND (r.sort_key, r.record_key, r.connection_id) {sign} (%s, %s, %s)",
                (after.sort_key, after.record_key, after.connection_id),
            )
        ]
    if after.sort_key is not None:
        return []
    return [
        Fragment(
            f" AND (r.record_key, r.connection_id) {sign} (%s, %s)",
            (after.record_key, after.connection_id),
        )
    ]


def _emitted(shown: Mapping[str, Any], emitted_at: datetime, field_emitted: str | None) -> datetime:
    if field_emitted is None:
        return emitted_at
    own: dict[str, str] = orjson.loads(field_emitted)
    times = [datetime.fromisoformat(own[name]) if name in own else emitted_at for name in shown]
    return max(times, default=emitted_at)


SHARED = f"SELECT pg_advisory_xact_lock_shared({NAMING})"
"""To go before FROM, over some ``connection_id``."""

GONE = """
SELECT FROM unnest(%s::text[], %s::text[], %s::text[]) AS n(connection_id, stream, record_key)
WHERE (SELECT true FROM evidence_record r WHERE r.connection_id = n.connection_id
    AND r.stream = n.stream AND r.record_key = n.record_key) IS NULL
"""
