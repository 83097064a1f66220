"""What follows from a record: sort key, consent time, typed columns, search text.

Everything here is computed from the data and the target alone, so it can be done on any thread,
and done again when a declaration changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from evidence.declarations.declaration import TITLE_ROLE, StreamDeclaration
from evidence.declarations.storage_layout import columns, links
from evidence.declarations.values import field_text, instant, sort_key
from evidence.models.digests import value_digest
from evidence.search.analysis import VERSION
from evidence.search.analysis.pg_text_search import IndexedField, joined_lexemes
from evidence.storing import copy_format
from evidence.storing.targets import Target


@dataclass(frozen=True, slots=True)
class State:
    """A record as it stands. ``field_emitted`` maps fields older than ``emitted_at`` to the ISO
    text of their own time; ``change_seq`` numbers its latest change."""

    data: Mapping[str, Any]
    emitted_at: datetime
    field_emitted: Mapping[str, str]
    consent_time: datetime | None
    change_seq: int


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The top-level fields that differ, those that came or went included."""
    if _sorted(old) == _sorted(new):
        return []
    return [
        name
        for name in {**old, **new}
        if name not in old or name not in new or not same(old[name], new[name])
    ]


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal to jsonb."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def before(old: Mapping[str, Any], fields: list[str]) -> dict[str, str | None]:
    """Keyed hashes of what ``fields`` said; null for a field that was absent."""
    return {name: value_digest(old[name]) if name in old else None for name in fields}


def emitted_times(
    state: State, *, data: Mapping[str, Any], changed: list[str], emitted_at: datetime
) -> tuple[datetime, dict[str, str]]:
    """``emitted_at`` and ``field_emitted`` of a record that becomes ``data``.

    A field that did not change keeps its time. The record's own is the latest of all, also when
    lines arrive out of order.
    """
    latest = max([emitted_at, *_kept(state, data, changed)])
    times = {name: state.field_emitted.get(name, _iso(state.emitted_at)) for name in data}
    times |= dict.fromkeys(set(changed) & data.keys(), _iso(emitted_at))
    row_time = _iso(latest)
    return latest, {name: time for name, time in times.items() if time != row_time}


def _kept(state: State, data: Mapping[str, Any], changed: list[str]) -> list[datetime]:
    kept = data.keys() - changed
    own = [
        datetime.fromisoformat(state.field_emitted[n]) for n in kept & state.field_emitted.keys()
    ]
    return [*own, state.emitted_at] if kept - state.field_emitted.keys() else own


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _sorted(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


BODY_WEIGHT = 1.0
TITLE_WEIGHT = 2.0
"""A word in a title says more about a record than one in its body (design, section 6)."""


@dataclass(frozen=True, slots=True)
class Derived:
    """``row`` is a record as COPY text up to its links; ``search`` is its search text as a binary
    row, or None where the stream is not searched."""

    consent_time: datetime | None
    row: bytes
    search: bytes | None


def derive(target: Target, *, key: str, data: Mapping[str, Any]) -> Derived:
    """The rows of a record, without what depends on its history."""
    stream, layout = target.stream, target.layout
    consent_time = instant(data.get(stream.consent_time_field or ""))
    typed = columns(layout, data)
    row = b"\t".join(
        (
            copy_format.text(target.connection_id),
            copy_format.text(stream.name),
            copy_format.text(key),
            copy_format.json(data),
            copy_format.text(_sort_key(stream, data)),
            copy_format.moment(consent_time),
            copy_format.plain_array(typed.numbers),
            copy_format.moment_array(typed.times),
            copy_format.text_array(typed.words),
            *map(copy_format.text, links(layout, data)),
        )
    )
    search = _search(target, key, data, consent_time) if layout["search"] else None
    return Derived(consent_time, row, search)


def record_row(derived: Derived, state: State) -> bytes:
    """The whole row of a record, as ``rows.RECORDS`` names its columns."""
    times = copy_format.json(state.field_emitted) if state.field_emitted else copy_format.NULL
    row = (derived.row, copy_format.moment(state.emitted_at), times, b"%d" % state.change_seq)
    return b"\t".join(row) + b"\n"


def _sort_key(stream: StreamDeclaration, data: Mapping[str, Any]) -> str | None:
    if stream.cursor_field is None:
        return None
    return sort_key(stream.fields[stream.cursor_field], value=data.get(stream.cursor_field))


def _search(
    target: Target, key: str, data: Mapping[str, Any], authored_at: datetime | None
) -> bytes:
    """Every field that was ever searched is indexed, as its code is never given away."""
    fields = [
        IndexedField(code, text, _weight(target.stream, field))
        for field, code in target.layout["search"].items()
        if (text := field_text(data.get(field)))
    ]
    codes = len(target.layout["search"])
    return copy_format.binary_row(
        copy_format.binary_text(target.connection_id),
        copy_format.binary_text(target.stream.name),
        copy_format.binary_text(key),
        copy_format.binary_terms(joined_lexemes(fields, languages=target.languages, codes=codes)),
        copy_format.binary_moment(authored_at),
        copy_format.binary_small(VERSION),
    )


def _weight(stream: StreamDeclaration, field: str) -> float:
    declared = stream.fields.get(field)
    return TITLE_WEIGHT if declared and declared.role == TITLE_ROLE else BODY_WEIGHT
