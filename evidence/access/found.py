"""Rows of places that a search has found, each asked once more whether it is visible."""

from collections.abc import Sequence
from typing import Protocol

from evidence.access.rows import SHOWN, VisibleRecord, VisibleRecords
from evidence.access.statements import Fragment, fetched_by_one_plan, joined


class Located(Protocol):
    """A record of the stream ``number``."""

    @property
    def number(self) -> int: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def record_key(self) -> str: ...


def rows_of(
    streams: Sequence[VisibleRecords], places: Sequence[Located]
) -> list[VisibleRecord | None]:
    """The record of each place; None where it is not there any more. One query."""
    parts = []
    for number, visible in enumerate(streams):
        here = [(at, each) for at, each in enumerate(places) if each.number == number]
        for group in visible.groups if here else ():
            keys = (
                [at for at, _ in here],
                [each.connection_id for _, each in here],
                [each.record_key for _, each in here],
            )
            part = Fragment(
                f"SELECT n.at, {SHOWN} FROM unnest(%s::int[], %s::text[], %s::text[])"
                " AS n(at, id, key) CROSS JOIN LATERAL (SELECT * FROM evidence_record r"
                " WHERE r.connection_id = n.id AND r.record_key = n.key"
                " AND r.connection_id = ANY(%s)",
                (*keys, group.connection_ids),
            )
            parts.append(part + group.condition + Fragment(" LIMIT 1) r"))
    if not parts:
        return [None for _ in places]
    rows = {at: row for at, *row in fetched_by_one_plan(joined(" UNION ALL ", parts))}
    return [
        streams[place.number].cut(tuple(rows[at])) if at in rows else None
        for at, place in enumerate(places)
    ]
