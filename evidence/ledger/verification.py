"""Verify every ledger entry, record link and checkpoint, and export them.

Signed entries are chained by their digests, and checkpoints sign the heads of the chains. An entry that
is not signed yet has only its seal, so one of the last two minutes can be deleted unnoticed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any

from django.utils import timezone

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.checkpoints import (
    chain_heads,
    entry_from_row,
    is_signed,
    parse_heads,
    verifier_keys,
)
from evidence.ledger.entries import GENESIS, ChainHead, record_digest
from evidence.models.ledger import Checkpoint, DisclosedRecord, Disclosure
from evidence.models.owners import current_owner

BATCH_SIZE = 1_000
MAX_UNSIGNED_AGE = timedelta(minutes=2)
"""Background jobs sign new entries within a minute."""
Json = dict[str, Any]

SELECT_DIGESTS = """
-- Return the digests of entries by chain and number. Parameters: chains, numbers, owner id.
-- One query per batch of heads.
SELECT d.chain, d.seq, d.digest
FROM unnest(%s::text[], %s::bigint[]) AS n(chain, seq)
JOIN evidence_disclosure AS d ON d.owner_id = %s AND d.chain = n.chain AND d.seq = n.seq
"""

FIND_UNCOVERED = """
-- Return the chains with numbered entries that the last checkpoint does not cover, and the first and last
-- number of these. Parameters: owner id, owner id. One query per verification.
SELECT d.chain, min(d.seq), max(d.seq)
FROM evidence_disclosure AS d
LEFT JOIN LATERAL (
    SELECT (h ->> 1)::bigint AS seq FROM jsonb_array_elements((
        SELECT c.heads::jsonb FROM evidence_checkpoint AS c WHERE c.owner_id = %s
        ORDER BY c.id DESC LIMIT 1
    )) AS h
    WHERE h ->> 0 = d.chain
) AS s ON true
WHERE d.owner_id = %s AND d.seq > coalesce(s.seq, 0)
GROUP BY d.chain ORDER BY d.chain
"""

# An answer and the digests of its new records are committed together, so some entry names each digest.
COUNT_UNUSED = """
-- Count the disclosed records that no entry names. Parameters: owner id. One query per verification.
SELECT count(*) FROM evidence_disclosedrecord AS r
WHERE r.owner_id = %s AND NOT EXISTS (
    SELECT FROM evidence_disclosure AS d
    WHERE d.owner_id = r.owner_id AND d.record_digests @> ARRAY[r.digest]
)
"""


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """A problem and the first entry that it affects; `seq` is None if it is not one of an entry."""

    chain: str
    seq: int | None
    message: str


@dataclass(slots=True)
class VerificationReport:
    """What was verified; `problems` is empty if the ledger is intact.

    `unsigned` counts the entries of `rows` that are not signed yet. `warnings` are only of a comparison
    with a copy.
    """

    chain_names: set[str] = field(default_factory=set)
    rows: int = 0
    unsigned: int = 0
    checkpoints: int = 0
    problems: list[LedgerProblem] = field(default_factory=list)
    warnings: list[LedgerProblem] = field(default_factory=list)

    @property
    def chains(self) -> int:
        return len(self.chain_names)


def verify(owner_id: str) -> VerificationReport:
    """Verify the ledger of an owner, reading each row once in constant memory.

    Entries that are signed during the verification are not checked.
    """
    report = VerificationReport()
    for head in chain_heads(owner_id):
        report.chain_names.add(head.chain)
        report.problems += _chain_problems(head, report)
    report.problems += _unsigned_problems(owner_id, report)
    report.problems += _checkpoint_problems(owner_id, report)
    report.problems += _link_problems(owner_id)
    return report


def _chain_problems(head: ChainHead, report: VerificationReport) -> Iterator[LedgerProblem]:
    """Stop at the first broken entry, because the entries after it prove nothing."""
    chain, last, _ = head
    previous, seq = GENESIS, 0
    rows = Disclosure.unscoped.filter(chain=chain, seq__lte=last).order_by("seq")
    for row in rows.iterator(BATCH_SIZE):
        report.rows += 1
        expected, seq = seq + 1, row.seq or 0
        if seq != expected:
            yield LedgerProblem(chain, expected, f"Rows {expected} to {seq - 1} are missing.")
            return
        digest = entry_from_row(row).digest(previous, seq, bytes(row.seal))
        if digest != bytes(row.digest or b""):
            yield LedgerProblem(chain, seq, "The content of this row was changed.")
            return
        previous = digest
    if seq < last:
        message = (
            f"Rows {seq + 1} to {last} are missing at the end: a signed checkpoint counts them."
        )
        yield LedgerProblem(chain, seq + 1, message)


def _unsigned_problems(owner_id: str, report: VerificationReport) -> Iterator[LedgerProblem]:
    """Check the seals of entries that are not signed yet, and the age of these."""
    late, latest = 0, timezone.now() - MAX_UNSIGNED_AGE
    rows = Disclosure.unscoped.filter(owner_id=owner_id, seq=None).order_by("chain", "at", "pk")
    for row in rows.iterator(BATCH_SIZE):
        report.rows += 1
        report.unsigned += 1
        report.chain_names.add(row.chain)
        if not entry_from_row(row).is_sealed(bytes(row.seal)):
            message = (
                f"A row of {row.at:%Y-%m-%d %H:%M:%S} UTC was changed, or added by somebody else."
            )
            yield LedgerProblem(row.chain, None, f"{row.chain}: {message}")
        elif row.at < latest:
            late += 1
    if late:
        message = (
            f"{late} rows are older than two minutes and not signed: background jobs do not run."
            " Start the server, or run manage.py ledger checkpoint."
        )
        yield LedgerProblem("", None, message)


def _checkpoint_problems(owner_id: str, report: VerificationReport) -> Iterator[LedgerProblem]:
    """Check that each checkpoint was signed here, and that the entries are those that it names."""
    checkpoints = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk")
    rows = checkpoints.iterator(BATCH_SIZE)
    # Entries up to these numbers were read; one problem a chain is enough.
    last, reported = {head.chain: head.seq for head in chain_heads(owner_id)}, set[str]()
    while batch := list(islice(rows, BATCH_SIZE)):
        report.checkpoints += len(batch)
        heads: dict[ChainHead, None] = {}
        for row in batch:
            named = parse_heads(row.heads)
            if is_signed(row.note, owner_id=owner_id, heads=named):
                heads |= dict.fromkeys(named)
            else:
                message = f"The checkpoint of {row.at:%Y-%m-%d %H:%M} UTC was not signed by this installation."
                yield LedgerProblem("", None, message)
        for head, digest in digests_of(heads):
            is_known = digest == head.digest or (
                digest is None and head.seq <= last.get(head.chain, 0)
            )
            if is_known or head.chain in reported:
                continue
            reported.add(head.chain)
            message = "A signed checkpoint names another digest here: the chain was rewritten."
            if digest is None:
                message = "This row is missing: a signed checkpoint names it."
            yield LedgerProblem(head.chain, head.seq, message)
    for chain, first, last in fetch_all(SQL(FIND_UNCOVERED, (owner_id, owner_id))):
        message = (
            f"No checkpoint covers rows {first} to {last}: checkpoints were deleted, or rows added."
        )
        yield LedgerProblem(chain, first, message)


def digests_of(heads: Iterable[ChainHead]) -> Iterator[tuple[ChainHead, bytes | None]]:
    """Yield each head with the digest of the entry of its number, or None if there is none."""
    named = [*heads]
    columns = ([head.chain for head in named], [head.seq for head in named])
    rows = fetch_all(SQL(SELECT_DIGESTS, (*columns, current_owner())))
    digests = {(chain, seq): bytes(digest) for chain, seq, digest in rows}
    for head in named:
        yield head, digests.get((head.chain, head.seq))


def _link_problems(owner_id: str) -> Iterator[LedgerProblem]:
    """Check that each digest belongs to its record, and that an entry names it."""
    for link in DisclosedRecord.unscoped.filter(owner_id=owner_id).iterator(BATCH_SIZE):
        digest = bytes(link.digest)
        key = (link.connection_id, link.stream, link.record_key)
        if record_digest(bytes(link.nonce), key) != digest:
            rows = Disclosure.unscoped.filter(owner_id=owner_id, record_digests__contains=[digest])
            first = rows.order_by("at", "pk").first()
            message = "A digest in this row links to a different record than the one disclosed."
            chain, seq = ("", None) if first is None else (first.chain, first.seq)
            yield LedgerProblem(chain, seq, message)
    [(unused,)] = fetch_all(SQL(COUNT_UNUSED, (owner_id,)))
    if unused:
        message = f"No row names the digests of {unused} records: they were changed or added."
        yield LedgerProblem("", None, message)


def export_lines(owner_id: str) -> Iterator[Json]:
    """Yield a header with the hash format and keys, then signed rows by chain, then checkpoints."""
    current_key, *previous_keys = verifier_keys(owner_id)
    checkpoints = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk")
    last = checkpoints.last()
    yield {
        "object": "ledger",
        "owner_id": owner_id,
        "public_key": current_key,
        "earlier_public_keys": previous_keys,
        "hash": "sha256 of each part as <length>:<bytes> - previous digest of the chain, seq, owner_id, entry_id,"
        " chain, at in microseconds since 1970, client_id, token_id, request_id, route, covered,"
        " record_count, counted or nothing, size_bytes, the text 'record digests', each record digest"
        " as 16 bytes, seal; numbers as decimal text, the digest before the first row is 32 zero bytes",
        "record_digests": "HMAC-SHA256, cut to 16 bytes, of connection_id, stream and record_key, each as"
        " <length>:<bytes>, under a nonce that the server stores until the record is erased",
    }
    for head in [] if last is None else parse_heads(last.heads):
        rows = Disclosure.unscoped.filter(chain=head.chain, seq__lte=head.seq).order_by("seq")
        for row in rows.iterator(BATCH_SIZE):
            yield _row(row)
    # Later checkpoints may sign rows that are not in this export.
    for checkpoint in checkpoints.filter(pk__lte=0 if last is None else last.pk).iterator(
        BATCH_SIZE
    ):
        heads = [
            [head.chain, head.seq, head.digest.hex()] for head in parse_heads(checkpoint.heads)
        ]
        yield {
            "object": "checkpoint",
            "at": checkpoint.at.isoformat(),
            "heads": heads,
            "note": checkpoint.note,
        }


def _row(row: Disclosure) -> Json:
    return {
        "object": "disclosure",
        "entry_id": str(row.entry_id),
        "chain": row.chain,
        "seq": row.seq,
        "at": row.at.isoformat(),
        "client_id": row.client_id,
        "token_id": row.token_id,
        "request_id": row.request_id,
        "route": row.route,
        "covered": row.covered,
        "record_count": row.record_count,
        "counted": row.counted,
        "size_bytes": row.size_bytes,
        "record_digests": [bytes(digest).hex() for digest in row.record_digests],
        "seal": bytes(row.seal).hex(),
        "digest": bytes(row.digest or b"").hex(),
    }
