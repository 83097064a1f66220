"""The owner's own looks at records, written down like any other."""

import secrets
from collections.abc import Iterable

from django.utils import timezone

from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.access.scope import Scope
from evidence.ledger.entries import Shown
from evidence.ledger.recording import Answer, record


def note(
    scope: Scope,
    visible: VisibleRecords,
    records: Iterable[VisibleRecord],
    *,
    route: str,
    fields: Iterable[str] | None = None,
) -> None:
    """Inside the transaction of the read. ``fields`` where a page shows only some of them; its
    size is not told, for a page is more than what it shows of records."""
    only = None if fields is None else frozenset(fields)
    shown = [
        Shown(
            each.connection.connection_id,
            visible.stream.name,
            each.record_key,
            frozenset(each.data) if only is None else only & frozenset(each.data),
        )
        for each in records
    ]
    answer = Answer(
        route=f"admin {route}",
        request_id=f"req_{secrets.token_hex(10)}",
        shown=shown,
        size_bytes=0,
    )
    record(scope, answer, now=timezone.now())
