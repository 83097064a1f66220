"""Record in the ledger what the owner's pages showed of records, in the transaction of the read."""

import secrets
from collections.abc import Iterable
from dataclasses import replace

from django.utils import timezone

from evidence.access.scope import Scope, TimeRange
from evidence.ledger.entries import DisclosedItem
from evidence.ledger.writer import DisclosedAnswer, record_disclosure
from owner.records.record_roles import RecordSummary


def record_owner_read(scope: Scope, items: Iterable[DisclosedItem], *, route: str) -> None:
    """Add one entry for a page; its size is unknown, as a page is more than its records."""
    answer = DisclosedAnswer(
        route=f"admin {route}",
        request_id=f"req_{secrets.token_hex(10)}",
        items=list(items),
        size_bytes=0,
    )
    record_disclosure(scope, answer, now=timezone.now())


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


def narrowed(scope: Scope, time: TimeRange | None) -> Scope:
    """Return the owner's scope with only the records of a time range."""
    if time is None:
        return scope
    grants = tuple(
        replace(grant, streams=tuple(replace(terms, time=time) for terms in grant.streams))
        for grant in scope.grants
    )
    return replace(scope, grants=grants)
