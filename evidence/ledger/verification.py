"""Proving that the ledger is whole: every row, every end and every checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, Min, OuterRef, Subquery
from django.db.models.functions import Coalesce

from evidence.ledger.checkpoints import heads_in, is_signed, key_lines
from evidence.ledger.entries import GENESIS, Entry, Head, is_sealed
from evidence.models.ledger import Chain, Checkpoint, Disclosure

AT_ONCE = 2_000

Wanted = dict[int, set[bytes]]
"""Number -> hashes; more than one where signatures contradict each other."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and from which row on; ``seq`` is None where it concerns a checkpoint."""

    chain: str
    seq: int | None
    message: str


@dataclass(slots=True)
class Verdict:
    """``faults`` is empty where everything holds."""

    chains: int = 0
    rows: int = 0
    checkpoints: int = 0
    faults: list[Fault] = field(default_factory=list)


def entry_of(row: Disclosure) -> Entry:
    return Entry(
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
    )


def verify(owner_id: str) -> Verdict:
    """Reads the whole ledger of an owner once, in constant memory. Rows that are added meanwhile
    are beyond the ends that were read first, and are left for the next time."""
    verdict = Verdict()
    wanted = _wanted(
        owner_id, verdict
    )  # first: what is signed later may be of rows beyond the ends
    ends = {row.chain: row for row in Chain.unscoped.filter(owner_id=owner_id)}
    for chain, end in sorted(ends.items()):
        verdict.chains += 1
        verdict.faults += _chain_faults(end, wanted.pop(chain, {}), verdict)
    for chain, digests in sorted(wanted.items()):
        verdict.faults.append(
            Fault(chain, max(digests), "A checkpoint names this chain, and it is gone.")
        )
    verdict.faults += _beyond_the_ends()
    return verdict


def _beyond_the_ends() -> Iterator[Fault]:
    """Rows that no end has counted. Rows and ends are read together, so none is merely new."""
    end = Chain.unscoped.filter(chain=OuterRef("chain")).values("seq")
    counted = Coalesce(Subquery(end), 0)
    beyond = Disclosure.unscoped.annotate(end=counted).filter(seq__gt=F("end"))
    for row in beyond.values("chain").annotate(first=Min("seq")).order_by("chain"):
        message = "The end of the chain does not count this row."
        yield Fault(row["chain"], row["first"], message)


def _wanted(owner_id: str, verdict: Verdict) -> dict[str, Wanted]:
    """The rows that checkpoints vouch for, by chain."""
    wanted: dict[str, Wanted] = {}
    for row in Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk").iterator(AT_ONCE):
        verdict.checkpoints += 1
        ends = heads_in(row.heads)
        if not is_signed(row.note, owner_id=owner_id, ends=ends):
            message = f"The checkpoint of {row.at:%Y-%m-%d %H:%M} UTC was not signed here."
            verdict.faults.append(Fault("", None, message))
            continue
        for end in ends:
            wanted.setdefault(end.chain, {}).setdefault(end.seq, set()).add(end.digest)
    return wanted


def _chain_faults(end: Chain, wanted: Wanted, verdict: Verdict) -> Iterator[Fault]:
    """At most one fault of each kind: what follows a broken row says nothing more."""
    previous, seq = GENESIS, 0
    rows = Disclosure.unscoped.filter(chain=end.chain, seq__lte=end.seq).order_by("seq")
    for row in rows.iterator(AT_ONCE):
        verdict.rows += 1
        if row.seq != seq + 1:
            yield Fault(end.chain, seq + 1, f"Rows {seq + 1} to {row.seq - 1} are missing.")
            return
        seq = row.seq
        fault = _row_fault(row, previous, wanted)
        if fault is not None:
            yield fault
            return
        previous = bytes(row.digest)
    yield from _end_faults(end, seq, previous, wanted)


def _row_fault(row: Disclosure, previous: bytes, wanted: Wanted) -> Fault | None:
    digest = bytes(row.digest)
    if bytes(row.previous) != previous:
        return Fault(row.chain, row.seq, "It does not follow the row before it: the chain forks.")
    if entry_of(row).digest(previous) != digest:
        return Fault(row.chain, row.seq, "Its content is not what was written.")
    if wanted.get(row.seq, {digest}) != {digest}:
        message = "A signed checkpoint saw another row here: the chain was written anew."
        return Fault(row.chain, row.seq, message)
    return None


def _end_faults(end: Chain, seq: int, digest: bytes, wanted: Wanted) -> Iterator[Fault]:
    if seq < end.seq:
        yield Fault(end.chain, seq + 1, f"Rows {seq + 1} to {end.seq} are missing at the end.")
    elif digest != bytes(end.digest):
        yield Fault(end.chain, seq, "The end of the chain is not its last row.")
    if end.seq and not is_sealed(Head(end.chain, end.seq, bytes(end.digest)), bytes(end.seal)):
        yield Fault(end.chain, end.seq, "The end of the chain was not sealed here.")
    if wanted and max(wanted) > end.seq:
        missing = f"Rows {end.seq + 1} to {max(wanted)} are missing: a signed checkpoint saw them."
        yield Fault(end.chain, end.seq + 1, missing)


Json = dict[str, Any]
EXPORT_BATCH_SIZE = 1_000


def lines(owner_id: str) -> Iterator[Json]:
    """First how to check it, then rows by chain and number, then the checkpoints."""
    today, *earlier = key_lines(owner_id)
    made_before = Checkpoint.unscoped.filter(owner_id=owner_id).order_by("pk")
    last = made_before.values_list("pk", flat=True).last() or 0
    yield {
        "object": "ledger",
        "owner_id": owner_id,
        "public_key": today,
        "earlier_public_keys": earlier,
        "hash": "sha256 of each part as <length>:<bytes> - previous, chain, seq, at in microseconds"
        " since 1970, client_id, token_id, request_id, route, covered, record_count, size_bytes,"
        " then each pseudonym as 16 bytes; numbers as decimal text",
    }
    for chain in Chain.unscoped.filter(owner_id=owner_id).order_by("chain"):
        rows = Disclosure.unscoped.filter(chain=chain.chain, seq__lte=chain.seq).order_by("seq")
        for row in rows.iterator(EXPORT_BATCH_SIZE):
            yield _row(row)
    # What is signed from here on names rows that are not here.
    for made in made_before.filter(pk__lte=last).iterator(EXPORT_BATCH_SIZE):
        heads = [[end.chain, end.seq, end.digest.hex()] for end in heads_in(made.heads)]
        yield {
            "object": "checkpoint",
            "at": made.at.isoformat(),
            "heads": heads,
            "note": made.note,
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
        "pseudonyms": [str(each) for each in row.pseudonyms],
        "previous": bytes(row.previous).hex(),
        "digest": bytes(row.digest).hex(),
    }
