"""Erase a record, a stream, a connection, or everything an owner has.

An order is stored and executed in steps. Each step is one transaction that removes a bounded number
of rows and counts them in the order, which becomes the receipt. Any process can resume an
unfinished order. The ledger stays verifiable: only the row that links a digest to its record is
deleted.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypedDict

from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.db import transaction

from evidence.access.grant_lifecycle import delete_access, revoke_grants_of_connection
from evidence.errors import ConnectionNotFound
from evidence.models.connections import Erasure
from evidence.models.digests import key_digest
from evidence.models.owners import current_owner, let_go
from evidence.write import app_data
from evidence.write.erasure_orders import (
    ErasureScope,
    add_counts,
    create_erasure,
    delete_collector_state,
    delete_quotes,
    delete_stream_data,
    erase_next_records,
    erase_past_records,
    erasure_step,
    get_receipt,
    unfinished_erasures,
)
from evidence.write.record_erasure import (
    ErasureCounts,
    delete_connection,
    delete_owner_data,
    delete_some_rows,
    erase_records,
    owner_account_id,
    revoke_connections,
)
from evidence.write.retention import overdue_streams

logger = logging.getLogger(__name__)


class EraseOptions(TypedDict):
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
    """Erase one record in one transaction, whether or not it exists, and return the receipt.

    Raises ``ConnectionNotFound``.
    """
    digest = key_digest(record_key, connection_id=connection_id, stream=stream)
    with transaction.atomic():
        order = create_erasure(
            ErasureScope.RECORD, owner_id=owner_id, by=by, now=now, connection_id=connection_id,
            stream=stream, record_digest=digest, tombstones=tombstones,
        )  # fmt: skip
        with erasure_step(order.erasure_id, now=now) as row:
            if row is not None:
                counts = erase_records(
                    connection_id, stream, [record_key], tombstones=tombstones, now=now
                )
                counts.removed.update(delete_quotes(connection_id))
                changed_states = delete_collector_state(connection_id, stream, record_key)
                counts.removed["collector states"] += changed_states
                add_counts(row, counts)
                row.finished_at = now
    _delete_files(connection_id, include_queued=False)
    return _refresh(order)


def run_erasure(erasure: Erasure, *, now: datetime) -> Iterator[Erasure]:
    """Execute an order or its rest; yield the order after each step and when it is finished."""
    try:
        if erasure.of == ErasureScope.STREAM:
            yield from _erase_stream(erasure, now)
        elif erasure.of == ErasureScope.CONNECTION:
            yield from _erase_connection(erasure, erasure.connection_id, now)
        elif erasure.of == ErasureScope.OWNER:
            yield from _erase_owner(erasure, now)
    except ConnectionNotFound:
        logger.info("the connection of an erasure no longer exists")
    with erasure_step(erasure.erasure_id, now=now) as row:
        if row is not None:
            row.finished_at = now
    yield _refresh(erasure)


def run_pending_erasures(*, now: datetime) -> Iterator[Erasure]:
    """Execute every unfinished order, oldest first."""
    for erasure in unfinished_erasures():
        yield from run_erasure(erasure, now=now)


def _erase_stream(erasure: Erasure, now: datetime) -> Iterator[Erasure]:
    connection_id, stream, before = erasure.connection_id, erasure.stream, erasure.before
    options: EraseOptions = {"tombstones": erasure.tombstones, "now": now}
    _delete_files(connection_id, include_queued=False)
    yield from _repeat_step(
        erasure, lambda: erase_next_records(connection_id, stream, before=before, **options), now
    )
    if before is not None:
        _run_once(erasure, lambda: delete_quotes(connection_id, before=before), now)
        return
    after = ""

    def erase_past() -> ErasureCounts | None:
        nonlocal after
        counts, after = erase_past_records(connection_id, stream, after=after, **options) or (
            None,
            after,
        )
        return counts

    yield from _repeat_step(erasure, erase_past, now)
    _run_once(erasure, lambda: delete_stream_data(connection_id, stream), now)


def _erase_connection(erasure: Erasure, connection_id: str, now: datetime) -> Iterator[Erasure]:
    _delete_files(connection_id, include_queued=True)
    yield from _repeat_step(erasure, lambda: _as_counts(delete_some_rows(connection_id)), now)
    _run_once(erasure, lambda: _delete_connection(connection_id, now), now)


def _delete_connection(connection_id: str, now: datetime) -> Counter[str]:
    ended_grants = revoke_grants_of_connection(connection_id, now=now)
    return delete_connection(connection_id) + Counter({"grants (ended, not erased)": ended_grants})


def _erase_owner(erasure: Erasure, now: datetime) -> Iterator[Erasure]:
    while connection_ids := revoke_connections(current_owner()):
        for connection_id in connection_ids:
            yield from _erase_connection(erasure, connection_id, now)
    _delete_files(None, include_queued=True)
    _run_once(erasure, lambda: _delete_owner(current_owner(), now), now)


def _delete_owner(owner_id: str, now: datetime) -> Counter[str]:
    removed = sum((data.delete_owner(owner_id) for data in app_data.registered()), Counter[str]())
    removed += delete_access(owner_id)
    user_id = owner_account_id(owner_id)
    removed += delete_owner_data(owner_id)
    if user_id is not None:
        removed["accounts"] = get_user_model().objects.filter(pk=user_id).delete()[0]
        removed["sessions"] = _delete_sessions(user_id)
    let_go(owner_id, now=now)
    return +removed


def _delete_sessions(user_id: int) -> int:
    """Delete the sessions of an account, and of nobody else; each says whose it is."""
    own = [row.pk for row in Session.objects.iterator() if _user_of(row) == str(user_id)]
    return Session.objects.filter(pk__in=own).delete()[0]


def _user_of(session: Session) -> object:
    return session.get_decoded().get(SESSION_KEY)


def _repeat_step(
    erasure: Erasure, step: Callable[[], ErasureCounts | None], now: datetime
) -> Iterator[Erasure]:
    """Repeat a step until nothing is left."""
    while True:
        with erasure_step(erasure.erasure_id, now=now) as row:
            counts = None if row is None else step()
            if row is None or counts is None:
                return
            add_counts(row, counts)
        yield _refresh(erasure)


def _run_once(erasure: Erasure, step: Callable[[], Counter[str]], now: datetime) -> None:
    with erasure_step(erasure.erasure_id, now=now) as row:
        if row is not None:
            add_counts(row, ErasureCounts(step()))


def _as_counts(counts: Counter[str]) -> ErasureCounts | None:
    return ErasureCounts(counts) if counts else None


def _delete_files(connection_id: str | None, *, include_queued: bool) -> None:
    for data in app_data.registered():
        data.delete_files(connection_id, include_queued=include_queued)


def _refresh(erasure: Erasure) -> Erasure:
    return get_receipt(erasure.erasure_id, owner_id=current_owner()) or erasure


def apply_retention(*, now: datetime) -> Iterator[Erasure]:
    """Erase records that are older than the retention period of their stream."""
    for overdue in overdue_streams(now):
        order = create_erasure(
            ErasureScope.STREAM, owner_id=overdue.owner_id, by="retention", now=now,
            connection_id=overdue.connection_id, stream=overdue.stream, before=overdue.before,
        )  # fmt: skip
        yield from run_erasure(order, now=now)
