"""What a new version of a record changes, and since when each of its fields has said what it says.

Values are equal as they are for jsonb: 1 is 1.0, true is not 1, the order of members is nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from evidence.models.keyed import value_digest


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
