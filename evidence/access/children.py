"""Records that belong to the records of a page: one statement a relation, however many they are.

Both read a stream through its own grant, so that what it hides is missing here as anywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evidence.access.rows import SHOWN, Group, VisibleRecord, VisibleRecords
from evidence.access.statements import Fragment, fetched_by_one_plan, joined


class Key(NamedTuple):
    """A record of whatever stream, by the connection that it came through."""

    connection_id: str
    record_key: str


def singles(child: VisibleRecords, keys: Iterable[Key]) -> dict[Key, VisibleRecord]:
    """The visible records of these keys; one query, none without keys."""
    branches = [
        Fragment(f"SELECT {SHOWN} FROM ") + pairs + _one_each(group)
        for group, pairs in _grouped(child, frozenset(keys))
    ]
    if not branches:
        return {}
    found = (child.cut(row) for row in fetched_by_one_plan(joined(" UNION ALL ", branches)))
    return {Key(each.connection.connection_id, each.record_key): each for each in found}


def several(
    child: VisibleRecords, foreign_key: str, parents: Iterable[Key], *, limit: int
) -> Mapping[Key, Sequence[VisibleRecord]]:
    """For each parent the first ``limit`` visible records whose ``foreign_key`` holds its key, in
    the order of the stream, newest first; one query, none without parents."""
    child.shown_field(foreign_key, param="expand")
    branches = [
        Fragment("SELECT p.key AS parent, u.* FROM ")
        + pairs
        + Fragment(" CROSS JOIN LATERAL (")
        + joined(" UNION ALL ", _buckets(child, group, foreign_key, limit))
        + Fragment(") u")
        for group, pairs in _grouped(child, frozenset(parents))
    ]
    if not branches:
        return {}
    statement = Fragment("SELECT u.* FROM (") + joined(" UNION ALL ", branches)
    statement += Fragment(f") u ORDER BY {_order(child, 'u')}")
    found: dict[Key, list[VisibleRecord]] = defaultdict(list)
    for parent, *row in fetched_by_one_plan(statement):
        record = child.cut(tuple(row))
        found[Key(record.connection.connection_id, parent)].append(record)
    return {parent: records[:limit] for parent, records in found.items()}


def _one_each(group: Group) -> Fragment:
    """The record of each pair ``p``. The limit says what the primary key says: without it a planner
    that has no statistics yet may read the whole table to join a page with it."""
    rows = Fragment(
        " CROSS JOIN LATERAL (SELECT * FROM evidence_record r"
        " WHERE r.connection_id = p.id AND r.record_key = p.key"
    )
    return rows + group.condition + Fragment(" LIMIT 1) r")


def _buckets(
    child: VisibleRecords, group: Group, foreign_key: str, limit: int
) -> Iterator[Fragment]:
    """The first rows of one parent ``p``, those with a cursor value and those without apart, for
    the index knows but one order of the two."""
    narrowings = ["IS NOT NULL", "IS NULL"] if child.in_time_order else [None]
    for narrowing in narrowings:
        rows = Fragment(f"(SELECT {SHOWN} FROM evidence_record r WHERE r.connection_id = p.id AND ")
        rows += _link(child, foreign_key) + Fragment(" = p.key") + group.condition
        order = "r.record_key DESC"
        if narrowing is not None:
            rows += Fragment(f" AND r.sort_key {narrowing}")
            order = f"r.sort_key DESC, {order}"
        yield rows + Fragment(f" ORDER BY {order} LIMIT {int(limit)})")


def _link(child: VisibleRecords, foreign_key: str) -> Fragment:
    """The foreign key as an expression over ``r``: its column, or the slow way."""
    column = child.layout.get("links", {}).get(foreign_key)
    if column is None:
        return Fragment("r.data->>%s", (foreign_key,))
    return Fragment(f"r.link_{int(column)}")


def _order(child: VisibleRecords, table: str) -> str:
    if not child.in_time_order:
        return f"{table}.record_key DESC"
    return f"({table}.sort_key IS NULL), {table}.sort_key DESC, {table}.record_key DESC"


def _grouped(child: VisibleRecords, keys: frozenset[Key]) -> Iterator[tuple[Group, Fragment]]:
    """The keys of each group of connections, as a table ``p``."""
    for group in child.groups:
        here = sorted(key for key in keys if key.connection_id in group.connection_ids)
        if here:
            values = ([key.connection_id for key in here], [key.record_key for key in here])
            yield group, Fragment("unnest(%s::text[], %s::text[]) AS p(id, key)", values)
