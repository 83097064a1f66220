"""One field of one record, or a slice of it cut in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from evidence.access.rows import VisibleRecords
from evidence.access.statements import Fragment, fetched_by_one_plan, joined
from evidence.declarations.types import Field


@dataclass(frozen=True, slots=True)
class FieldSlice:
    """``text`` starts at ``start_chars`` of a field of ``total_chars`` code points.

    ``json_type`` is the type of the value, None when there is none; other than for a string,
    ``text`` is the value as JSON. ``size_bytes`` is its length in UTF-8. ``authorship`` holds the
    granted fields that tell who wrote the record.
    """

    connection_id: str
    json_type: str | None
    start_chars: int
    text: str
    total_chars: int
    size_bytes: int
    authorship: Mapping[str, Any]


def field_slices(
    visible: VisibleRecords,
    record_key: str,
    field: Field,
    *,
    below: Sequence[str] = (),
    start: int = 0,
    length: int | None = None,
) -> list[FieldSlice]:
    """The slice in each connection that has the record; the whole value without ``length``.

    ``below`` are the keys and indexes that lead from the field to a value inside it. One query. The
    caller has the field from ``shown_field``; asking again costs nothing and keeps this safe.
    """
    name = visible.shown_field(field.name, param="field").name
    part = Fragment("v.t")
    if length is not None:
        part = Fragment("substring(v.t from %s for %s)", (start + 1, length))
    # The fences keep a value of a megabyte from being unpacked once for each use of it.
    columns = Fragment("r.connection_id, r.data #> %s::text[] AS j, ", ([name, *below],))
    value = visible.of_key(record_key, columns + _authorship(visible) + Fragment(" AS a"))
    statement = Fragment("SELECT v.connection_id, jsonb_typeof(v.j), ") + part
    statement += Fragment(", char_length(v.t), octet_length(v.t), v.a FROM")
    statement += Fragment(" (SELECT u.connection_id, u.j, u.j #>> '{}' AS t, u.a FROM (") + value
    statement += Fragment(") u OFFSET 0) v")
    rows = fetched_by_one_plan(statement)
    return [
        FieldSlice(
            connection_id=connection_id,
            json_type=json_type,
            start_chars=start if length is not None else 0,
            text=text or "",
            total_chars=total or 0,
            size_bytes=size or 0,
            authorship=orjson.loads(authorship),
        )
        for connection_id, json_type, text, total, size, authorship in rows
    ]


def _authorship(visible: VisibleRecords) -> Fragment:
    """The fields that tell who wrote the record, as far as every grant concerned shows them."""
    shown = [name for name in visible.stream.authorship if visible.shows(name)]
    pairs = joined(", ", [Fragment("%s::text, r.data->%s", (name, name)) for name in shown])
    return Fragment("jsonb_build_object(") + pairs + Fragment(")::text")
