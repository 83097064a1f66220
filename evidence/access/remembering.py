"""Large counts that still hold: the next page of a search need not count everything again.

A count is remembered with the number of the latest change of each connection that it was made over,
and is good for as long as these are the same. What it depends on is all in its key, so it tells
nobody more than counting anew would. For a while only, as a new analysis of texts numbers no change.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from evidence.access.places import Branch
from evidence.access.statements import Fragment, fetched_by_one_plan

KEPT: Final = 256
LARGE: Final = 1_000
"""Smaller counts are made as fast as they could be looked up."""
SECONDS: Final = 60.0
HEADS: Final = (
    "(SELECT string_agg(k.connection_id || ' ' || k.change_seq, ' ' ORDER BY k.connection_id)"
    " FROM evidence_connection k WHERE k.connection_id = ANY(%s))"
)


@dataclass(frozen=True, slots=True)
class _Known:
    heads: str
    count: int
    until: float


_known: OrderedDict[Hashable, _Known] = OrderedDict()
_lock = threading.Lock()


def heads(branches: Sequence[Branch]) -> Fragment:
    """The latest change of every connection, as an expression."""
    ids = {each for branch in branches for group in branch.visible.groups
           for each in group.connection_ids}  # fmt: skip
    return Fragment(HEADS, (sorted(ids),))


def remembered(branches: Sequence[Branch], *, most: int) -> int | None:
    """The count, where it is known and still holds; one query to see whether it does, if any."""
    with _lock:
        known = _known.get(_key(branches, most))
    if known is None or known.until < time.monotonic():
        return None
    now = fetched_by_one_plan(Fragment("SELECT ") + heads(branches))[0][0]
    return known.count if known.heads == now else None


def remember(branches: Sequence[Branch], *, most: int, seen: str, count: int) -> None:
    """Keep a count that was made when the heads were as ``seen``, or later."""
    if count < LARGE:
        return
    with _lock:
        _known[_key(branches, most)] = _Known(seen, count, time.monotonic() + SECONDS)
        while len(_known) > KEPT:
            _known.popitem(last=False)


def _key(branches: Sequence[Branch], most: int) -> Hashable:
    """Everything that says which rows are counted."""
    return most, tuple(
        (
            branch.terms.matching,
            branch.visible.source.declaration_pk,
            tuple(group.connection_ids),
            group.condition.text,
            repr(group.condition.values),
        )
        for branch in branches
        for group in branch.visible.groups
    )
