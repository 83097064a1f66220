"""Record in the ledger what the owner's pages showed of records, in the transaction of the read."""

import secrets
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.scope import Scope
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedAnswer, DisclosedItem, record_disclosure
from owner.records.record_summaries import RecordSummary, summarize


def record_owner_read(scope: Scope, items: Iterable[DisclosedItem], *, route: str) -> None:
    """Add one entry for a page; its size is unknown, as a page is more than its records."""
    answer = DisclosedAnswer(
        route=f"admin {route}",
        request_id=f"req_{secrets.token_hex(10)}",
        items=list(items),
        size_bytes=0,
    )
    record_disclosure(scope, answer, now=timezone.now())


def headings_of(
    gate: Gate, connection_id: str, stream: str, record_key: str, *, route: str
) -> list[str]:
    """Return what a page about one record calls it, and add an entry; empty if it is not there."""
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException:
        return []
    with transaction.atomic():
        found = summarize(visible, visible.get(record_key))
        if found:
            record_owner_read(gate.scope, listed_items(found), route=route)
    return [each.heading for each in found]


def listed_items(summaries: Iterable[RecordSummary]) -> list[DisclosedItem]:
    """Return what a list shows of each record: the fields with a role."""
    return [
        DisclosedItem(
            each.connection_id,
            each.visible.stream.name,
            each.record.record_key,
            each.listed_fields,
        )
        for each in summaries
    ]
