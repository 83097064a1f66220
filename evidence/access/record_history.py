"""Decide from a record's changes what a grant shows as changed or deleted.

Of the state before a change, the log stores whether the record was visible and keyed hashes of the
fields that changed. That is enough to decide whether what the grant shows now differs from what it
showed at a bookmark.

The result depends on visible states only. Changes of hidden fields, changes made while the record
was not visible, and changes that were undone leave no trace in it (design, section 5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

from evidence.access.granted_streams import GrantedStream
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import Allowed
from evidence.models.digests import value_digest
from evidence.models.records import RecordChange

Kind = RecordChange.Kind


class VisibleChange(Enum):
    SAME = "nothing visible changed"
    SHOWN = "the record is visible, and new or changed"
    GONE = "the record was visible and is not any more"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a record.

    ``before`` maps the changed fields to hashes of their earlier values, None for an absent field.
    ``visible`` is whether the grant showed the record just before the change.
    """

    seq: int
    kind: str
    before: Mapping[str, str | None]
    visible: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class LogHead:
    """The change log of one connection: its latest change number and how much of it is kept.

    Numbers include changes that a grant hides, so never show them to a client.
    """

    seq: int
    pruned_seq: int
    kept_since: datetime | None


def parse_log_heads(text: str | None) -> dict[str, LogHead]:
    """Return the log heads by connection id, as the statement of a page returns them in JSON."""
    return {
        connection_id: LogHead(seq, pruned, datetime.fromisoformat(since) if since else None)
        for connection_id, (seq, pruned, since) in orjson.loads(text or "{}").items()
    }


@dataclass(frozen=True, slots=True)
class ChangeCandidate:
    """A record that may have visibly changed.

    ``record`` is None if it is not visible now. ``changes`` is empty if the client knows nothing of the
    connection yet.
    """

    grant: GrantedStream
    connection_id: str
    record_key: str
    changes: tuple[Change, ...]
    record: VisibleRecord | None


def parse_candidate(visible: VisibleRecords, row: Sequence[Any]) -> ChangeCandidate:
    """Return the candidate of a row that a statement of ``evidence.access.change_log`` returns."""
    connection_id, record_key, history, *columns, change_seq = row
    changes = tuple(
        Change(seq, kind, before or {}, seen, datetime.fromisoformat(at))
        for seq, kind, before, seen, at in orjson.loads(history or "[]")
    )
    is_visible = change_seq is not None
    return ChangeCandidate(
        grant=visible.grant_for[connection_id],
        connection_id=connection_id,
        record_key=record_key,
        changes=changes,
        record=visible.project((connection_id, record_key, *columns)) if is_visible else None,
    )


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a client has read the changes of one connection, in change numbers.

    The client knows the state of a record at some moment from ``since`` to ``known``. They differ if
    something was written while earlier pages were read. ``since`` is None if the client knows nothing
    yet. The current pages end at ``until``, which is None before the first page.
    """

    since: int | None
    known: int = 0
    until: int | None = None


def visible_change(
    changes: Sequence[Change],
    current: Mapping[str, Any] | None,
    *,
    fields: Allowed,
    position: FeedPosition,
    until: int,
) -> VisibleChange:
    """Return what to report of a record after at least one change since ``position.since``.

    ``current`` is the record as the grant shows it now, None if it is not visible.
    """
    visible_seqs = [
        change.seq
        for change, visible_after in _with_visibility_after(changes, current)
        if _is_visible(change, visible_after=visible_after, fields=fields)
    ]
    if not any(seq <= until for seq in visible_seqs):
        return VisibleChange.SAME
    knows_first_state = not any(seq <= position.known for seq in visible_seqs)
    if knows_first_state and not _differs(changes, current, fields):
        return VisibleChange.SAME
    return VisibleChange.SHOWN if current is not None else VisibleChange.GONE


def last_visible_at(changes: Sequence[Change]) -> datetime:
    """Return when a record that is not visible now was last visible."""
    return [change.at for change in changes if change.visible][-1]


def _with_visibility_after(
    changes: Sequence[Change], current: Mapping[str, Any] | None
) -> list[tuple[Change, bool]]:
    """Return each change with whether the record was visible after it."""
    after = [change.visible for change in changes[1:]]
    return list(zip(changes, [*after, current is not None], strict=True))


def _is_visible(change: Change, *, visible_after: bool, fields: Allowed) -> bool:
    """Return whether the grant would have shown the change when it happened."""
    if change.visible != visible_after:
        return True
    return change.visible and any(fields.allows(name) for name in change.before)


def _differs(changes: Sequence[Change], current: Mapping[str, Any] | None, fields: Allowed) -> bool:
    """Return whether the grant shows the current state and the first one differently."""
    if changes[0].visible != (current is not None):
        return True
    if current is None:
        return False
    first, was_deleted = _first_digests(changes, fields)
    names = first.keys() | current.keys() if was_deleted else first.keys()
    return any(first.get(name) != _digest(current, name) for name in names)


def _first_digests(
    changes: Sequence[Change], fields: Allowed
) -> tuple[dict[str, str | None], bool]:
    """Return the known digests of the fields before the first change.

    They cover every field that changed, and all fields if the record was deleted (second value).
    """
    first: dict[str, str | None] = {}
    for change in changes:
        for name, digest in change.before.items():
            if fields.allows(name):
                first.setdefault(name, digest)
        if change.kind == Kind.DELETED:
            return first, True
    return first, False


def _digest(current: Mapping[str, Any], name: str) -> str | None:
    return value_digest(current[name]) if name in current else None
