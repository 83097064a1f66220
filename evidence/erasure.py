"""Erasing for good: a record, a stream, a connection, or everything an owner has.

An order is kept in the database and carried out in steps, each one transaction that removes a
bounded number of rows and counts them in the order, which so becomes the receipt. Whoever finds an
unfinished one goes on with it. The ledger stays and still verifies: what goes is the one row that
says whose pseudonym a record had.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypedDict

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import transaction

from evidence.access.grant_lifecycle import end_grants_over, forget_access
from evidence.errors import ConnectionNotFound
from evidence.models.digests import key_digest
from evidence.models.erasures import Erasure
from evidence.models.imports import ImportRun
from evidence.storing import uploads
from evidence.storing.connection_erasure import (
    account_of,
    end_all,
    forget_connection,
    forget_owner,
    forget_some,
)
from evidence.storing.erasure_orders import (
    Of,
    a_step,
    count,
    erase_past,
    erase_some,
    forget_collected,
    forget_receipts,
    forget_stream,
    order,
    receipt,
    unfinished,
)
from evidence.storing.record_erasure import Tally, take_away
from evidence.storing.retention import due

logger = logging.getLogger(__name__)


class How(TypedDict):
    tombstones: bool
    now: datetime


def erase_record(
    connection_id: str,
    *,
    stream: str,
    record_key: str,
    owner_id: str,
    by: str,
    now: datetime,
    tombstones: bool = True,
) -> Erasure:
    """Erases one record, whether or not it is there now; its receipt. One transaction. Raises
    ``ConnectionNotFound``."""
    digest = key_digest(record_key, connection_id=connection_id, stream=stream)
    with transaction.atomic():
        made = order(
            Of.RECORD, owner_id=owner_id, by=by, now=now, connection_id=connection_id,
            stream=stream, record_digest=digest, tombstones=tombstones,
        )  # fmt: skip
        with a_step(made.erasure_id, now=now) as row:
            if row is not None:
                tally = take_away(
                    connection_id, stream, [record_key], tombstones=tombstones, now=now
                )
                tally.removed.update(forget_receipts(connection_id))
                memories = forget_collected(connection_id, stream, record_key)
                tally.removed["collector states"] += memories
                count(row, tally)
                row.finished_at = now
    _forget_uploads(connection_id, every=False)
    return _known(made)


def go_on(erasure: Erasure, *, now: datetime) -> Iterator[Erasure]:
    """Carries out an order, or what is left of it: the order after each step, and finished."""
    try:
        if erasure.of == Of.STREAM:
            yield from _stream(erasure, now)
        elif erasure.of == Of.CONNECTION:
            yield from _connection(erasure, erasure.connection_id, now)
        elif erasure.of == Of.OWNER:
            yield from _owner(erasure, now)
    except ConnectionNotFound:
        logger.info("an erasure found its connection gone")
    with a_step(erasure.erasure_id, now=now) as row:
        if row is not None:
            row.finished_at = now
    yield _known(erasure)


def go_on_with_all(*, now: datetime) -> Iterator[Erasure]:
    """Every order that is not finished, the oldest first."""
    for erasure in unfinished():
        yield from go_on(erasure, now=now)


def _stream(erasure: Erasure, now: datetime) -> Iterator[Erasure]:
    where, stream, before = erasure.connection_id, erasure.stream, erasure.before
    how: How = {"tombstones": erasure.tombstones, "now": now}
    _forget_uploads(where, every=False)
    yield from _repeat(erasure, lambda: erase_some(where, stream, before=before, **how), now)
    if before is not None:
        _once(erasure, lambda: forget_receipts(where, before=before), now)
        return
    after = ""

    def past() -> Tally | None:
        nonlocal after
        tally, after = erase_past(where, stream, after=after, **how) or (None, after)
        return tally

    yield from _repeat(erasure, past, now)
    _once(erasure, lambda: forget_stream(where, stream), now)


def _connection(erasure: Erasure, connection_id: str, now: datetime) -> Iterator[Erasure]:
    _forget_uploads(connection_id, every=True)
    yield from _repeat(erasure, lambda: _tallied(forget_some(connection_id)), now)
    _once(erasure, lambda: _last_of(connection_id, now), now)


def _last_of(connection_id: str, now: datetime) -> Counter[str]:
    ended = end_grants_over(connection_id, now=now)
    return forget_connection(connection_id) + Counter({"grants (ended, not erased)": ended})


def _owner(erasure: Erasure, now: datetime) -> Iterator[Erasure]:
    while left := end_all(erasure.owner_id):
        for connection_id in left:
            yield from _connection(erasure, connection_id, now)
    uploads.forget(settings.PDPP_VAR / "imports", run_ids=None)
    _once(erasure, lambda: _rest_of(erasure.owner_id), now)


def _rest_of(owner_id: str) -> Counter[str]:
    gone = forget_access(owner_id)
    account = account_of(owner_id)
    gone += forget_owner(owner_id)
    if account is not None:
        gone["accounts"] = get_user_model().objects.filter(pk=account).delete()[0]
    gone["sessions"] = Session.objects.all().delete()[0]
    return +gone


def _repeat(erasure: Erasure, step: Callable[[], Tally | None], now: datetime) -> Iterator[Erasure]:
    """Steps until there is nothing left for one."""
    while True:
        with a_step(erasure.erasure_id, now=now) as row:
            tally = None if row is None else step()
            if row is None or tally is None:
                return
            count(row, tally)
        yield _known(erasure)


def _once(erasure: Erasure, step: Callable[[], Counter[str]], now: datetime) -> None:
    with a_step(erasure.erasure_id, now=now) as row:
        if row is not None:
            count(row, Tally(step()))


def _tallied(some: Counter[str]) -> Tally | None:
    return Tally(some) if some else None


def _forget_uploads(connection_id: str, *, every: bool) -> None:
    """Exports that were sent and imported here, and what they were called; not ``every``: those
    alone that nothing more is to be done with."""
    runs = ImportRun.unscoped.filter(connection_id=connection_id)
    ids = list(runs.values_list("run_id", flat=True))
    uploads.forget(settings.PDPP_VAR / "imports", run_ids=ids, every=every)


def _known(erasure: Erasure) -> Erasure:
    return receipt(erasure.erasure_id, owner_id=erasure.owner_id) or erasure


def retain(*, now: datetime) -> Iterator[Erasure]:
    """Erases what is older than its stream keeps, as the owner has said."""
    for each in due(now):
        made = order(
            Of.STREAM, owner_id=each.owner_id, by="retention", now=now,
            connection_id=each.connection_id, stream=each.stream, before=each.before,
        )  # fmt: skip
        yield from go_on(made, now=now)
