"""Describe what an erasure removes and keeps, before it starts and on its receipt."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from django.conf import settings

from evidence.models.connections import Erasure
from evidence.write.erasure_orders import ErasureScope, count_all_holdings, count_holdings

PLURAL_ENDING = re.compile(r"(ies|s)(?= in | of | \(|$)")
KIND_ORDER = (
    "records", "files", "search texts", "vectors", "history entries", "names in the ledger",
    "imports", "import receipts", "connections", "grants", "tokens", "clients", "accounts",
)  # fmt: skip
INTERNAL = {"pieces of files", "stream counters", "counts of people", "counters of people"}
LABELS = {"names in the ledger": "references in Activity", "accounts of sources": "live accounts"}
"""Kinds that receipts store under another name than they show."""
LEDGER_KEPT = (
    "The ledger of disclosures stays verifiable. It still shows when and to whom records were"
    " shown, but no longer which ones."
)
CLIENTS_NOTIFIED = (
    "Apps that read a record are notified of its deletion; its key is kept {days} days for that."
)
IMPORTS_SKIP = "A keyed hash of each record key stays, so that later imports skip the record."
GRANTS_END = "Grants to this connection only are revoked. They stay in the list of grants."
COPIES_REMAIN = (
    "Copies that apps have made, earlier backups and exports on your disk are not erased."
)
ACCESS_DELETED = (
    "All grants, tokens, clients, sources and sessions are deleted, and your account. The next"
    " set-up link creates a new account."
)
RECEIPTS_DELETED = "Import receipts are not kept, because they may quote unreadable input."


def count_rows(
    of: ErasureScope,
    *,
    owner_id: str,
    connection_id: str = "",
    stream: str = "",
    record_key: str | None = None,
) -> Counter[str]:
    """Count the rows that an erasure would remove, by kind."""
    if of == ErasureScope.OWNER:
        return count_all_holdings(owner_id)
    return count_holdings(connection_id, stream=stream or None, record_key=record_key)


def describe_kept(of: ErasureScope, *, tombstones: bool = True) -> list[str]:
    lines = [LEDGER_KEPT]
    if of in {ErasureScope.RECORD, ErasureScope.STREAM}:
        lines += [CLIENTS_NOTIFIED.format(days=settings.PDPP_CHANGES_DAYS)] if tombstones else []
        lines += [IMPORTS_SKIP, RECEIPTS_DELETED]
    if of == ErasureScope.CONNECTION:
        lines.append(GRANTS_END)
    if of == ErasureScope.OWNER:
        lines.append(ACCESS_DELETED)
    return [*lines, COPIES_REMAIN]


def format_counts(counts_by_kind: Mapping[str, int]) -> list[str]:
    """Format counts as ``1,204 records``, the most important first, without internal rows."""
    ranks = {kind: rank for rank, kind in enumerate(KIND_ORDER)}
    kinds = sorted(
        counts_by_kind.keys() - INTERNAL, key=lambda kind: (ranks.get(kind, len(ranks)), kind)
    )
    return [_format_count(counts_by_kind[kind], LABELS.get(kind, kind)) for kind in kinds]


def _format_count(number: int, kind: str) -> str:
    return f"{number:,} {_singular(kind) if number == 1 else kind}"


def _singular(kind: str) -> str:
    """Return a kind in the singular: ``history entries`` -> ``history entry``."""
    return PLURAL_ENDING.sub(lambda match: "y" if match[1] == "ies" else "", kind, count=1)


def receipt_lines(erasure: Erasure) -> Iterator[str]:
    """Yield the lines of a receipt, which contains no erased data."""
    finished_at = erasure.finished_at
    state = (
        "not finished yet"
        if finished_at is None
        else f"finished {finished_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    yield f"{erasure.erasure_id}: {describe_scope(erasure)}, {state}, requested by {erasure.by}"
    yield f"  removed: {', '.join(format_counts(erasure.removed)) or 'nothing'}"
    if erasure.kept:
        yield f"  kept: {', '.join(format_counts(erasure.kept))}"


def describe_scope(erasure: Erasure) -> str:
    if erasure.of == ErasureScope.OWNER:
        return "everything"
    if erasure.of == ErasureScope.CONNECTION:
        return f"connection {erasure.connection_id}"
    if erasure.of == ErasureScope.STREAM:
        older = "" if erasure.before is None else f", older than {erasure.before:%Y-%m-%d}"
        return f"stream {erasure.stream} of {erasure.connection_id}{older}"
    return f"one record of {erasure.stream} of {erasure.connection_id}"
