"""Show on a page whether the ledger is intact, without reading all of it.

A background job verifies the whole ledger once a day and keeps the result in memory. A page checks
the last signature and the rows that it names.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from evidence.access.sql import select_owners
from evidence.ledger.checkpoints import is_signed, last_checkpoint, parse_heads
from evidence.ledger.verification import digests_of, verify
from evidence.models.ledger import Checkpoint, Disclosure
from evidence.models.owners import present_owners

VERIFY_EVERY = timedelta(days=1)
UPKEEP_EVERY = timedelta(hours=1)

SELECT_SIGNED = """
-- Return the owners whose last checkpoint is later than a time. Parameter: the time. One query across
-- owners.
SELECT o.owner_id FROM evidence_owner AS o
JOIN LATERAL (
    SELECT c.at FROM evidence_checkpoint AS c WHERE c.owner_id = o.owner_id ORDER BY c.id DESC LIMIT 1
) AS c ON c.at > %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerProof:
    """`problem` is empty if the ledger is intact; the times are None until it happened.

    ``verified_rows`` is the number of entries that the last verification read.
    """

    rows: int
    problem: str = ""
    signed_at: datetime | None = None
    verified_at: datetime | None = None
    verified_rows: int = 0


@dataclass(frozen=True, slots=True)
class _Verified:
    at: datetime
    rows: int
    problem: str


def ledger_proof(owner_id: str) -> LedgerProof:
    """Return the state of the ledger. Three queries, whatever its size."""
    checkpoint = last_checkpoint(owner_id)
    verified: _Verified | None = cache.get(_key(owner_id))
    problem = _problem(owner_id, checkpoint)
    unsigned = Disclosure.unscoped.filter(owner_id=owner_id, seq=None).count()
    return LedgerProof(
        rows=unsigned + (0 if checkpoint is None else checkpoint.size),
        problem=problem or ("" if verified is None else verified.problem),
        signed_at=None if checkpoint is None else checkpoint.at,
        verified_at=None if verified is None else verified.at,
        verified_rows=0 if verified is None else verified.rows,
    )


def owners_to_verify(now: datetime) -> list[str]:
    """Return the owners whose ledger has new entries, or was not verified by this process within a day."""
    signed = {*select_owners(SELECT_SIGNED, [now - 2 * UPKEEP_EVERY])}
    owner_ids = present_owners().values_list("pk", flat=True)
    return [pk for pk in owner_ids if pk in signed or not _is_verified(pk, now)]


def verify_daily(owner_id: str, *, now: datetime) -> bool:
    """Verify the whole ledger unless this process did within a day. Returns whether it ran."""
    if _is_verified(owner_id, now):
        return False
    report = verify(owner_id)
    problem = report.problems[0].message if report.problems else ""
    cache.set(_key(owner_id), _Verified(now, report.rows, problem), None)
    return True


def _is_verified(owner_id: str, now: datetime) -> bool:
    verified: _Verified | None = cache.get(_key(owner_id))
    return verified is not None and now - verified.at < VERIFY_EVERY


def _key(owner_id: str) -> str:
    return f"ledger-proof-{owner_id}"


def _problem(owner_id: str, checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return ""
    signed = parse_heads(checkpoint.heads)
    if not is_signed(checkpoint.note, owner_id=owner_id, heads=signed):
        return "The last signature was not made by this installation."
    if any(digest != head.digest for head, digest in digests_of(signed)):
        return "Entries are missing or were changed."
    return ""
