"""Verify every ledger row, record link, chain head and checkpoint, and export them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Min, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from evidence.ledger.checkpoints import is_signed, parse_heads, verifier_keys
from evidence.ledger.entries import GENESIS, ChainHead, LedgerEntry, is_sealed
from evidence.ledger.pseudonym_links import LinkCheck, count_unused_pseudonyms
from evidence.models.ledger import Chain, Checkpoint, Disclosure

BATCH_SIZE = 2_000

MAX_UNSIGNED_AGE = timedelta(hours=1)
"""Background jobs sign the ledger when the server starts, and then every hour."""

SignedDigests = dict[int, set[bytes]]
"""Sequence number -> digests that checkpoints signed; more than one if checkpoints disagree."""


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """A problem and the first row that it affects; `seq` is None if it is not a problem of a row."""

    chain: str
    seq: int | None
    message: str


@dataclass(slots=True)
class VerificationReport:
    """What was verified; `problems` is empty if the ledger is intact.

    `warnings` names unsigned rows of a server that was idle or stopped.
    """

    chains: int = 0
    rows: int = 0
    checkpoints: int = 0
    problems: list[LedgerProblem] = field(default_factory=list)
    warnings: list[LedgerProblem] = field(default_factory=list)


def entry_from_row(row: Disclosure) -> LedgerEntry:
    return LedgerEntry(
        chain=row.chain,
        seq=row.seq,
        at=row.at,
        client_id=row.client_id,
        token_id=row.token_id,
        request_id=row.request_id,
        route=row.route,
        covered=row.covered,
        record_count=row.record_count,
        size_bytes=row.size_bytes,
        pseudonyms=tuple(row.pseudonyms),
        record_digests=tuple(map(bytes, row.record_digests)),
    )


@dataclass(slots=True)
class UnsignedRows:
    """Rows of all chains that are older than MAX_UNSIGNED_AGE and that no checkpoint covers.

    A server signs when it starts and then every hour. If the rows span more than an hour, the
    server was running and did not sign: a problem. Otherwise it was stopped: a warning.
    """

    written_before: datetime
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """First and last number of the rows, by chain."""
    first_at: datetime | None = None
    last_at: datetime | None = None

    def add(self, row: Disclosure) -> None:
        """Add a row that no checkpoint covers. Ignores rows that are not old enough."""
        if row.at >= self.written_before:
            return
        first, _ = self.ranges.get(row.chain, (row.seq, row.seq))
        self.ranges[row.chain] = (first, row.seq)
        self.first_at = min(self.first_at or row.at, row.at)
        self.last_at = max(self.last_at or row.at, row.at)

    def add_to(self, report: VerificationReport) -> None:
        """Add one problem or warning per chain to the report."""
        if self.first_at is None or self.last_at is None:
            return
        if self.last_at - self.first_at > MAX_UNSIGNED_AGE:
            report.problems += self._describe(
                ", although the server was running: checkpoints were deleted, or background jobs"
                " fail."
            )
        else:
            report.warnings += self._describe(
                ". Start the server, which signs every hour, or run manage.py ledger checkpoint."
            )

    def _describe(self, ending: str) -> Iterator[LedgerProblem]:
        for chain, (first, last) in self.ranges.items():
            rows = f"Rows {first} to {last} are older than an hour, and no checkpoint covers them"
            yield LedgerProblem(chain, first, f"{rows}{ending}")


def verify(owner_id: str) -> VerificationReport:
    """Verify the ledger of an owner, reading each row once in constant memory.

    Rows added during verification lie after the heads that were read first, and are not checked.
    """
    report, unsigned = VerificationReport(), UnsignedRows(timezone.now() - MAX_UNSIGNED_AGE)
    # Read checkpoints before heads: a later checkpoint may sign rows after these heads.
    signed = _signed_digests(owner_id, report)
    heads = {row.chain: row for row in Chain.unscoped.filter(owner_id=owner_id)}
    for chain, head in sorted(heads.items()):
        report.chains += 1
        report.problems += _chain_problems(head, signed.pop(chain, {}), report, unsigned)
    for chain, digests in sorted(signed.items()):
        report.problems.append(
            LedgerProblem(
                chain, max(digests), "A checkpoint names this chain, but the chain is missing."
            )
        )
    report.problems += _uncounted_rows()
    if unused := count_unused_pseudonyms():
        message = f"No row names {unused} pseudonyms of records: they were changed or added."
        report.problems.append(LedgerProblem("", None, message))
    unsigned.add_to(report)
    return report


def _uncounted_rows() -> Iterator[LedgerProblem]:
    """Find rows after the head of their chain. One query reads rows and heads consistently."""
    head = Chain.unscoped.filter(chain=OuterRef("chain")).values("seq")
    counted = Coalesce(Subquery(head), 0)
    rows = Disclosure.unscoped.annotate(head=counted).filter(seq__gt=F("head"))
    for row in rows.values("chain").annotate(first=Min("seq")).order_by("chain"):
        message = "The chain head does not count this row."
        yield LedgerProblem(row["chain"], row["first"], message)


def _signed_digests(owner_id: str, report: VerificationReport) -> dict[str, SignedDigests]:
    """Return the digests that checkpoints signed, by chain."""
    signed: dict[str, SignedDigests] = {}
    for row in Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk").iterator(BATCH_SIZE):
        report.checkpoints += 1
        heads = parse_heads(row.heads)
        if not is_signed(row.note, owner_id=owner_id, heads=heads):
            message = f"The checkpoint of {row.at:%Y-%m-%d %H:%M} UTC was not signed by this installation."
            report.problems.append(LedgerProblem("", None, message))
            continue
        for head in heads:
            signed.setdefault(head.chain, {}).setdefault(head.seq, set()).add(head.digest)
    return signed


def _chain_problems(
    head: Chain, signed: SignedDigests, report: VerificationReport, unsigned: UnsignedRows
) -> Iterator[LedgerProblem]:
    """Stop at the first broken row, because the rows after it prove nothing.

    The first record link that was changed before that row is a problem of its own.
    """
    previous, seq, last_signed, links = GENESIS, 0, max(signed, default=0), LinkCheck()
    rows = Disclosure.unscoped.filter(chain=head.chain, seq__lte=head.seq).order_by("seq")
    for row in rows.iterator(BATCH_SIZE):
        report.rows += 1
        problem = _row_problem(row, seq, previous, signed)
        if problem is not None:
            yield problem
            break
        seq, previous = row.seq, bytes(row.digest)
        links.add(row)
        if seq > last_signed:
            unsigned.add(row)
    else:
        yield from _head_problems(head, seq, previous, signed)
    if (changed := links.first_changed()) is not None:
        message = "A pseudonym in this row links to a different record than the one disclosed."
        yield LedgerProblem(head.chain, changed, message)


def _row_problem(
    row: Disclosure, seq: int, previous: bytes, signed: SignedDigests
) -> LedgerProblem | None:
    """Return the problem of a row that follows row `seq` with the digest `previous`."""
    digest = bytes(row.digest)
    if row.seq != seq + 1:
        message = f"Rows {seq + 1} to {row.seq - 1} are missing."
        return LedgerProblem(row.chain, seq + 1, message)
    if bytes(row.previous) != previous:
        return LedgerProblem(
            row.chain, row.seq, "This row does not follow the row before it: the chain forks."
        )
    if entry_from_row(row).digest(previous) != digest:
        return LedgerProblem(row.chain, row.seq, "The content of this row was changed.")
    if signed.get(row.seq, {digest}) != {digest}:
        message = "A signed checkpoint names another digest here: the chain was rewritten."
        return LedgerProblem(row.chain, row.seq, message)
    return None


def _head_problems(
    head: Chain, seq: int, digest: bytes, signed: SignedDigests
) -> Iterator[LedgerProblem]:
    if seq < head.seq:
        yield LedgerProblem(
            head.chain, seq + 1, f"Rows {seq + 1} to {head.seq} are missing at the end."
        )
    elif digest != bytes(head.digest):
        yield LedgerProblem(head.chain, seq, "The chain head is not the last row.")
    if head.seq and not is_sealed(
        ChainHead(head.chain, head.seq, bytes(head.digest)), bytes(head.seal)
    ):
        yield LedgerProblem(
            head.chain, head.seq, "The chain head was not sealed by this installation."
        )
    if signed and max(signed) > head.seq:
        missing = (
            f"Rows {head.seq + 1} to {max(signed)} are missing: a signed checkpoint counts them."
        )
        yield LedgerProblem(head.chain, head.seq + 1, missing)


Json = dict[str, Any]
EXPORT_BATCH_SIZE = 1_000


def export_lines(owner_id: str) -> Iterator[Json]:
    """Yield a header with the hash format and keys, then rows by chain, then checkpoints."""
    current_key, *previous_keys = verifier_keys(owner_id)
    checkpoints = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk")
    last = checkpoints.values_list("pk", flat=True).last() or 0
    yield {
        "object": "ledger",
        "owner_id": owner_id,
        "public_key": current_key,
        "earlier_public_keys": previous_keys,
        "hash": "sha256 of each part as <length>:<bytes> - previous, chain, seq, at in microseconds"
        " since 1970, client_id, token_id, request_id, route, covered, record_count, size_bytes,"
        " then each pseudonym as 16 bytes, the text 'record digests' and each digest as 32 bytes;"
        " numbers as decimal text",
        "record_digests": "one for each pseudonym: HMAC-SHA256 of connection_id, stream and"
        " record_key, each as <length>:<bytes>, under the nonce that the server stores until the"
        " record is erased",
    }
    for chain in Chain.unscoped.filter(owner_id=owner_id).order_by("chain"):
        rows = Disclosure.unscoped.filter(chain=chain.chain, seq__lte=chain.seq).order_by("seq")
        for row in rows.iterator(EXPORT_BATCH_SIZE):
            yield _row(row)
    # Later checkpoints may sign rows that are not in this export.
    for checkpoint in checkpoints.filter(pk__lte=last).iterator(EXPORT_BATCH_SIZE):
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
        "chain": row.chain,
        "seq": row.seq,
        "at": row.at.isoformat(),
        "client_id": row.client_id,
        "token_id": row.token_id,
        "request_id": row.request_id,
        "route": row.route,
        "covered": row.covered,
        "record_count": row.record_count,
        "size_bytes": row.size_bytes,
        "pseudonyms": [str(pseudonym) for pseudonym in row.pseudonyms],
        "record_digests": [bytes(digest).hex() for digest in row.record_digests],
        "previous": bytes(row.previous).hex(),
        "digest": bytes(row.digest).hex(),
    }
