"""What has become of one record, as far as a grant shows it. Pure.

A record has a state before each of its changes and one now. All that is kept of an earlier state is
whether it was visible and, of the fields that then changed, keyed hashes; that is enough to tell
whether what the grant shows now differs from what it showed at a bookmark.

The outcome depends on visible states alone. Changes of hidden fields, changes made while the
record was out of sight, and what was taken back again leave no trace in it (design, section 5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from evidence.access.scope import Allowed
from evidence.models.digests import value_digest
from evidence.models.records import RecordChange

Kind = RecordChange.Kind


class Outcome(Enum):
    SAME = "there is nothing to tell"
    SHOWN = "the record is there and new, or other than it was"
    GONE = "the record was there and is there no more"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. ``before`` maps changed fields to hashes of what they said, None for an absent
    one; ``visible`` says whether the grant showed the record just before it."""

    seq: int
    kind: str
    before: Mapping[str, str | None]
    visible: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a client has been told of one connection, as numbers of changes.

    What it knows of a record is the state at some moment from ``since`` to ``known``: the two
    differ where something was written while the pages before were read. ``since`` is None where it
    knows nothing yet. ``until`` is where the present pages end, None before the first of them.
    """

    since: int | None
    known: int = 0
    until: int | None = None


def outcome(
    changes: Sequence[Change],
    shown: Mapping[str, Any] | None,
    *,
    fields: Allowed,
    reach: Reach,
    until: int,
) -> Outcome:
    """What to tell of a record after ``changes``, all since ``reach.since``, at least one.

    ``shown`` is what the grant shows of it now, None where that is nothing.
    """
    moved = [
        change.seq
        for change, visible_after in _with_what_followed(changes, shown)
        if _moves(change, visible_after=visible_after, fields=fields)
    ]
    if not any(seq <= until for seq in moved):
        return Outcome.SAME
    certain = not any(seq <= reach.known for seq in moved)
    if certain and not _differs(changes, shown, fields):
        return Outcome.SAME
    return Outcome.SHOWN if shown is not None else Outcome.GONE


def gone_at(changes: Sequence[Change]) -> datetime:
    """When a record that is not visible now was visible last."""
    return [change.at for change in changes if change.visible][-1]


def _with_what_followed(
    changes: Sequence[Change], shown: Mapping[str, Any] | None
) -> list[tuple[Change, bool]]:
    """Each change, and whether the record was visible after it."""
    after = [change.visible for change in changes[1:]]
    return list(zip(changes, [*after, shown is not None], strict=True))


def _moves(change: Change, *, visible_after: bool, fields: Allowed) -> bool:
    """Whether somebody who watched the record through the grant would have seen the change."""
    if change.visible != visible_after:
        return True
    return change.visible and any(fields.allows(name) for name in change.before)


def _differs(changes: Sequence[Change], shown: Mapping[str, Any] | None, fields: Allowed) -> bool:
    """Whether the state before the first change and the present one look different."""
    if changes[0].visible != (shown is not None):
        return True
    if shown is None:
        return False
    then, was_deleted = _at_first(changes, fields)
    names = then.keys() | shown.keys() if was_deleted else then.keys()
    return any(then.get(name) != _digest(shown, name) for name in names)


def _at_first(changes: Sequence[Change], fields: Allowed) -> tuple[dict[str, str | None], bool]:
    """What is known of the fields before the first change: that of every field that changed later,
    and of all fields where the record was deleted, for then each of them changed."""
    then: dict[str, str | None] = {}
    for change in changes:
        for name, digest in change.before.items():
            if fields.allows(name):
                then.setdefault(name, digest)
        if change.kind == Kind.DELETED:
            return then, True
    return then, False


def _digest(shown: Mapping[str, Any], name: str) -> str | None:
    return value_digest(shown[name]) if name in shown else None
