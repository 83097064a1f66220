"""What an erasure takes and what it leaves, in sentences: before it is done, and on its receipt."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from django.conf import settings

from evidence.models.erasures import Erasure
from evidence.storing.erasure_orders import Of, everything, holdings

ENDING = re.compile(r"(ies|s)(?= in | of | \(|$)")
ORDER = (
    "records", "files", "search texts", "vectors", "history entries", "names in the ledger",
    "imports", "import receipts", "connections", "grants", "tokens", "clients", "accounts",
)  # fmt: skip
LEDGER = (
    "The ledger stays and still verifies: it says that records were shown, when and to whom, and no"
    " longer which they were."
)
TOLD = (
    "Clients that were shown one are told that it is gone; for that its key stays, for {days} days."
)
SKIPPED = "A keyed hash of each key stays, so that importing the same export again skips it."
ENDED = "Grants that lead to nothing else end. They stay in the list of grants."
COPIES = (
    "What clients have read, backups made before, and exports on your own disk are not reached."
)
GONE = (
    "Every grant, token, client, source and sign-in goes, and your account too: the next set-up link"
    " makes a new one."
)
LOOK_AGAIN = "Receipts of imports go, too, as they may quote what could not be read."


def before_erasing(
    of: Of,
    *,
    owner_id: str,
    connection_id: str = "",
    stream: str = "",
    record_key: str | None = None,
) -> Counter[str]:
    """How many rows of each kind are there to go."""
    if of == Of.OWNER:
        return everything(owner_id)
    return holdings(connection_id, stream=stream or None, record_key=record_key)


def what_stays(of: Of, *, tombstones: bool = True) -> list[str]:
    lines = [LEDGER]
    if of in {Of.RECORD, Of.STREAM}:
        lines += [TOLD.format(days=settings.PDPP_CHANGES_DAYS)] if tombstones else []
        lines += [SKIPPED, LOOK_AGAIN]
    if of == Of.CONNECTION:
        lines.append(ENDED)
    if of == Of.OWNER:
        lines.append(GONE)
    return [*lines, COPIES]


def counts(numbers: Mapping[str, int]) -> list[str]:
    """``1,204 records``, the weightiest first; pieces of files go with the files."""
    found = {kind: number for kind, number in numbers.items() if kind != "pieces of files"}
    ranks = {kind: rank for rank, kind in enumerate(ORDER)}
    kinds = sorted(found, key=lambda kind: (ranks.get(kind, len(ranks)), kind))
    return [f"{found[kind]:,} {_one(kind) if found[kind] == 1 else kind}" for kind in kinds]


def _one(kind: str) -> str:
    """``names in the ledger`` -> ``name in the ledger``."""
    return ENDING.sub(lambda found: "y" if found[1] == "ies" else "", kind, count=1)


def receipt_lines(erasure: Erasure) -> Iterator[str]:
    """The receipt: no word of what was erased."""
    ended = erasure.finished_at
    state = "not finished yet" if ended is None else f"finished {ended:%Y-%m-%d %H:%M:%S} UTC"
    yield f"{erasure.erasure_id}: {what(erasure)}, {state}, wanted by {erasure.by}"
    yield f"  removed: {', '.join(counts(erasure.removed)) or 'nothing'}"
    if erasure.kept:
        yield f"  kept: {', '.join(counts(erasure.kept))}"


def what(erasure: Erasure) -> str:
    if erasure.of == Of.OWNER:
        return "everything"
    if erasure.of == Of.CONNECTION:
        return f"connection {erasure.connection_id}"
    if erasure.of == Of.STREAM:
        older = "" if erasure.before is None else f", older than {erasure.before:%Y-%m-%d}"
        return f"stream {erasure.stream} of {erasure.connection_id}{older}"
    return f"one record of {erasure.stream} of {erasure.connection_id}"
