"""Show on a page whether the ledger is intact, without reading all of it.

A background job verifies the whole ledger once a day and keeps the result in memory. A page checks
the last signature, the seals of the chain heads, and the rows that both of them name.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache

from evidence.access.sql import SQL, fetch_all, select_owners
from evidence.ledger.checkpoints import is_signed, parse_heads
from evidence.ledger.entries import ChainHead, is_sealed
from evidence.ledger.verification import verify
from evidence.models.ledger import Chain, Checkpoint
from evidence.models.owners import current_owner, owners_of

VERIFY_EVERY = timedelta(days=1)

SELECT_DIGESTS = """
-- Return the digests of rows by chain and number. Parameters: chains, numbers, owner id. One query.
SELECT d.chain, d.seq, d.digest
FROM unnest(%s::text[], %s::bigint[]) AS n(chain, seq)
JOIN evidence_disclosure AS d ON d.owner_id = %s AND d.chain = n.chain AND d.seq = n.seq
"""


SELECT_UNSIGNED = """
-- Return the owners with entries since their last checkpoint, or shortly before: an entry gets its
-- time before it is committed. One query across owners.
SELECT DISTINCT c.owner_id
FROM evidence_chain AS c
LEFT JOIN evidence_disclosure AS d
    ON d.owner_id = c.owner_id AND d.chain = c.chain AND d.seq = c.seq
LEFT JOIN LATERAL (
    SELECT k.at FROM evidence_checkpoint AS k WHERE k.owner_id = c.owner_id
    ORDER BY k.id DESC LIMIT 1
) AS k ON true
WHERE c.seq > 0 AND (k.at IS NULL OR d.at IS NULL OR d.at > k.at - interval '2 minutes')
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
    checkpoint = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("-pk").first()
    chains = list(Chain.unscoped.filter(owner_id=owner_id, seq__gt=0))
    verified: _Verified | None = cache.get(_key(owner_id))
    problem = _problem(owner_id, chains, checkpoint)
    return LedgerProof(
        rows=sum(chain.seq for chain in chains),
        problem=problem or ("" if verified is None else verified.problem),
        signed_at=None if checkpoint is None else checkpoint.at,
        verified_at=None if verified is None else verified.at,
        verified_rows=0 if verified is None else verified.rows,
    )


def owners_to_check(now: datetime) -> list[str]:
    """Return the owners whose ledger is to be signed or verified. Two queries across owners."""
    unsigned = {*select_owners(SELECT_UNSIGNED)}
    owner_ids = owners_of(lambda: Chain.unscoped.filter(seq__gt=0))
    return [pk for pk in owner_ids if pk in unsigned or not _is_verified(pk, now)]


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


def _problem(owner_id: str, chains: list[Chain], checkpoint: Checkpoint | None) -> str:
    heads = [ChainHead(row.chain, row.seq, bytes(row.digest)) for row in chains]
    seals = {row.chain: bytes(row.seal) for row in chains}
    if not all(is_sealed(head, seals[head.chain]) for head in heads):
        return "The end of a chain was not sealed by this installation."
    signed = [] if checkpoint is None else parse_heads(checkpoint.heads)
    if checkpoint is not None and not is_signed(checkpoint.note, owner_id=owner_id, heads=signed):
        return "The last signature was not made by this installation."
    named = [*heads, *signed]
    columns = ([head.chain for head in named], [head.seq for head in named])
    rows = fetch_all(SQL(SELECT_DIGESTS, (*columns, current_owner())))
    digests = {(chain, seq): bytes(digest) for chain, seq, digest in rows}
    if any(digests.get((head.chain, head.seq)) != head.digest for head in named):
        return "Entries are missing or were changed."
    return ""
