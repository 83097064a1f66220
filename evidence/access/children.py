"""Records that belong to the records of a page: one statement a relation, however many they are.

Both read a stream through its own grant, so that what it hides is missing here as anywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evidence.access.conditions import typed_column
from evidence.access.rows import SHOWN, Group, VisibleRecord, VisibleRecords
from evidence.access.statements import Fragment, fetched, joined


class Key(NamedTuple):
    """A record of whatever stream, by the connection that it came through."""

    connection_id: str
    record_key: str


def singles(child: VisibleRecords, keys: Iterable[Key]) -> dict[Key, VisibleRecord]:
    """The visible records of these keys; one query, none without keys."""
    wanted = frozenset(keys)
    branches = [
        Fragment(f"SELECT {SHOWN} FROM ")
        + pairs
        + Fragment(
            " JOIN evidence_record r ON r.connection_id = p.id AND r.record_key = p.key WHERE true"
        )
        + group.condition
        for group, pairs in _grouped(child, wanted)
    ]
    if not branches:
        return {}
    found = (child.cut(row) for row in fetched(joined(" UNION ALL ", branches)))
    return {Key(each.connection.connection_id, each.record_key): each for each in found}


def several(
    child: VisibleRecords, foreign_key: str, parents: Iterable[Key], *, limit: int
) -> Mapping[Key, Sequence[VisibleRecord]]:
    """For each parent the first ``limit`` visible records whose ``foreign_key`` holds its key, in
    the order of the stream, newest first; one query, none without parents."""
    field = child.shown_field(foreign_key, param="expand")
    column = typed_column(child, field) if field.kind == "string" else None
    held = Fragment(column) if column else Fragment("(r.data->>%s)", (foreign_key,))
    order = "r.record_key DESC"
    if child.in_time_order:
        order = f"(r.sort_key IS NULL), r.sort_key DESC, {order}"
    branches = [
        Fragment(
            f"SELECT p.key AS parent, {SHOWN}, row_number() OVER"
            f" (PARTITION BY p.id, p.key ORDER BY {order}) AS place FROM "
        )
        + pairs
        + Fragment(" JOIN evidence_record r ON r.connection_id = p.id AND ")
        + held
        + Fragment(" = p.key WHERE true")
        + group.condition
        for group, pairs in _grouped(child, frozenset(parents))
    ]
    if not branches:
        return {}
    statement = Fragment("SELECT u.* FROM (") + joined(" UNION ALL ", branches)
    statement += Fragment(") u WHERE u.place <= %s ORDER BY u.place", (limit,))
    found: dict[Key, list[VisibleRecord]] = defaultdict(list)
    for parent, *row, _ in fetched(statement):
        record = child.cut(tuple(row))
        found[Key(record.connection.connection_id, parent)].append(record)
    return found


def _grouped(child: VisibleRecords, keys: frozenset[Key]) -> Iterable[tuple[Group, Fragment]]:
    """The keys of each group of connections, as a table ``p``."""
    for group in child.groups:
        here = sorted(key for key in keys if key.connection_id in group.connection_ids)
        if here:
            values = ([key.connection_id for key in here], [key.record_key for key in here])
            yield group, Fragment("unnest(%s::text[], %s::text[]) AS p(id, key)", values)
