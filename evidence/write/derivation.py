"""Compute a record's derived columns and compare its versions.

Derived columns depend only on data and target, so any thread can compute them, again whenever a
declaration changes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from evidence.declarations.declaration import TITLE_ROLE, StreamDeclaration
from evidence.declarations.roles import field_text
from evidence.declarations.storage_layout import (
    in_code_order,
    link_columns,
    owner_code,
    typed_columns,
)
from evidence.declarations.values import declared_time, sort_key
from evidence.search.analysis import VERSION
from evidence.search.analysis.tsquery import IndexedField, encode_lexemes
from evidence.write import copy_format
from evidence.write.targets import Target


class StoredRecord(NamedTuple):
    """The stored version of a record.

    ``field_emitted`` maps fields older than ``emitted_at`` to their own time in ISO format;
    ``change_seq`` is the number of the latest change.
    """

    data: Mapping[str, Any]
    emitted_at: datetime
    field_emitted: Mapping[str, str]
    consent_time: datetime | None
    change_seq: int


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the top-level fields that differ, including added and removed ones."""
    if _canonical(old) == _canonical(new):
        return []
    return [
        name
        for name in {**old, **new}
        if name not in old or name not in new or not json_equal(old[name], new[name])
    ]


def json_equal(left: object, right: object) -> bool:
    """Return whether two JSON values are equal in the sense of jsonb."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            json_equal(left[name], right[name]) for name in left
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def emitted_times(
    state: StoredRecord, *, data: Mapping[str, Any], changed: list[str], emitted_at: datetime
) -> tuple[datetime, dict[str, str]]:
    """Return ``emitted_at`` and ``field_emitted`` of a record updated to ``data``.

    Unchanged fields keep their times. ``emitted_at`` is the latest time of all fields, even if
    lines arrive out of order.
    """
    latest = max([emitted_at, *_unchanged_times(state, data, changed)])
    times = {name: state.field_emitted.get(name, _iso(state.emitted_at)) for name in data}
    times |= dict.fromkeys(set(changed) & data.keys(), _iso(emitted_at))
    row_time = _iso(latest)
    return latest, {name: time for name, time in times.items() if time != row_time}


def _unchanged_times(
    state: StoredRecord, data: Mapping[str, Any], changed: list[str]
) -> list[datetime]:
    unchanged = data.keys() - changed
    own = [
        datetime.fromisoformat(state.field_emitted[n])
        for n in unchanged & state.field_emitted.keys()
    ]
    return [*own, state.emitted_at] if unchanged - state.field_emitted.keys() else own


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


BODY_WEIGHT = 1.0
TITLE_WEIGHT = 2.0
"""A title describes a record better than its body does (design, section 6)."""


class Derived(NamedTuple):
    """Derived columns of a record.

    ``row`` is COPY text up to the links; ``search`` is the search text as a binary row, or None if
    the stream is not searchable.
    """

    consent_time: datetime | None
    row: bytes
    search: bytes | None


def derive(target: Target, *, key: str, data: Mapping[str, Any]) -> Derived:
    """Compute the columns of a record that do not depend on its history."""
    stream, layout = target.stream, target.layout
    consent_time = _consent_time(stream, data)
    typed = typed_columns(layout, data, fields=stream.fields)
    row = b"\t".join(
        (
            copy_format.text(target.owner_id),
            copy_format.text(target.connection_id),
            copy_format.text(stream.name),
            copy_format.text(key),
            copy_format.json(data),
            copy_format.text(_sort_key(stream, data)),
            copy_format.timestamp(consent_time),
            copy_format.number_array(typed.numbers),
            copy_format.timestamp_array(typed.times),
            copy_format.text_array(typed.words),
            *map(copy_format.text, link_columns(layout, data)),
        )
    )
    search = _search(target, key, data, consent_time) if layout["search"] else None
    return Derived(consent_time, row, search)


def record_row(derived: Derived, state: StoredRecord) -> bytes:
    """Return the complete row of a record, in the column order of ``rows.RECORD_COLUMNS``."""
    times = copy_format.json(state.field_emitted) if state.field_emitted else copy_format.NULL
    row = (derived.row, copy_format.timestamp(state.emitted_at), times, b"%d" % state.change_seq)
    return b"\t".join(row) + b"\n"


def _consent_time(stream: StreamDeclaration, data: Mapping[str, Any]) -> datetime | None:
    name = stream.consent_time_field
    return None if name is None else declared_time(stream.fields[name], data.get(name))


def _sort_key(stream: StreamDeclaration, data: Mapping[str, Any]) -> str | None:
    if stream.cursor_field is None:
        return None
    return sort_key(stream.fields[stream.cursor_field], value=data.get(stream.cursor_field))


def _search(
    target: Target, key: str, data: Mapping[str, Any], authored_at: datetime | None
) -> bytes:
    """Index every field that was ever searchable, because its code is never reused."""
    owner = owner_code(target.owner_id)
    fields = [
        IndexedField(owner + code, text, _weight(target.stream, field))
        for field, code in target.layout["search"].items()
        if (text := field_text(data.get(field)))
    ]
    codes = target.layout["search"].values()
    lexemes = encode_lexemes(fields, languages=target.languages, codes=len(codes))
    orders = [lexemes.orders.get(owner + code) for code in in_code_order(codes)]
    return copy_format.binary_row(
        copy_format.binary_text(target.owner_id),
        copy_format.binary_text(target.connection_id),
        copy_format.binary_text(target.stream.name),
        copy_format.binary_text(key),
        copy_format.binary_tsvector(lexemes),
        copy_format.binary_bytes_array(orders),
        copy_format.binary_timestamp(authored_at),
        copy_format.binary_smallint(VERSION),
    )


def _weight(stream: StreamDeclaration, field: str) -> float:
    declared = stream.fields.get(field)
    return TITLE_WEIGHT if declared and declared.role == TITLE_ROLE else BODY_WEIGHT
