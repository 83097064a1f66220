"""Verify every ledger entry, record link and checkpoint, export them, and compare them with a copy.

Signed entries are chained by their digests, and checkpoints sign the heads of the chains. An entry that
is not signed yet has only its seal, so one of the last two minutes can be deleted unnoticed.

A background job verifies the whole ledger once a day and keeps the result in memory. A page checks
the last signature and the rows that it names.

Someone with all rights on the database can empty the tables of the ledger together, and what is left
is a valid ledger. A file elsewhere still names the rows: an export, or the heads alone, which are
small enough to be written every day. A heads line also has, by chain, the number of records that the
chain's rows up to the head still link to; it is not part of the signature.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from django.core.cache import cache
from django.utils import timezone

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.checkpoints import (
    chain_heads,
    is_signed,
    last_checkpoint,
    parse_heads,
    signed_note,
    verifier_keys,
)
from evidence.ledger.entries import GENESIS, ChainHead, chain_digest, is_sealed, record_digest
from evidence.models.ledger import Checkpoint, DisclosedRecord, Disclosure
from evidence.models.owners import current_owner, owners_of, present_owners

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
        digest = chain_digest(row, previous, seq)
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
        if not is_sealed(row):
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


VERIFY_EVERY = timedelta(days=1)
UPKEEP_EVERY = timedelta(hours=1)


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
    signed = {*owners_of(lambda: Checkpoint.unscoped.filter(at__gt=now - 2 * UPKEEP_EVERY))}
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


COUNT_LINKS = """
-- Count the records that the first rows of chains link to, by chain. Parameters: chains, numbers of
-- their last rows, owner id. One query per heads line.
SELECT d.chain, count(DISTINCT r.digest)
FROM evidence_disclosure AS d
JOIN evidence_disclosedrecord AS r ON r.owner_id = d.owner_id AND r.digest = ANY(d.record_digests)
JOIN unnest(%s::text[], %s::bigint[]) AS h(chain, seq) ON h.chain = d.chain AND d.seq <= h.seq
WHERE d.owner_id = %s
GROUP BY d.chain
"""

COUNT_ERASED = """
-- Count the record links that erasures removed, from their receipts. Parameters: owner id. One query.
SELECT coalesce(sum((removed ->> 'names in the ledger')::bigint), 0)
FROM evidence_erasure WHERE owner_id = %s
"""


class AnchorError(ValueError):
    """The file cannot be compared: it is damaged, or is of another owner."""


def heads_line(owner_id: str, *, now: datetime) -> Json:
    """Return the signed heads of all chains, with the record links of each. Three queries."""
    # Read receipts before links: an erasure in between then explains a link too many, not too few.
    erased, heads = _count_erased(), chain_heads(owner_id)
    links = _count_links(heads)
    return {
        "object": "heads",
        "owner_id": owner_id,
        "at": now.isoformat(),
        "heads": [[head.chain, head.seq, head.digest.hex()] for head in heads],
        "record_links": {head.chain: links.get(head.chain, 0) for head in heads},
        "erased_links": erased,
        "note": signed_note(owner_id, heads),
    }


def file_in(folder: Path, owner_id: str, *, now: datetime) -> Path:
    """Return the path of the owner's file of the day (UTC)."""
    return folder / f"ledger-{owner_id}-{now:%Y-%m-%d}.jsonl"


def write_lines(path: Path, lines: Iterable[Json]) -> None:
    """Write a new file with mode 0600, complete or not at all. Raises FileExistsError and OSError."""
    if path.exists():
        raise FileExistsError(f"{path} exists. A copy of the ledger is never replaced.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for line in lines:
                file.write(orjson.dumps(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def write_daily(folder: Path, owner_id: str, *, now: datetime) -> bool:
    """Write the heads into the folder unless there is a file of the day. Returns whether it wrote."""
    with contextlib.suppress(FileExistsError):
        write_lines(file_in(folder, owner_id, now=now), [heads_line(owner_id, now=now)])
        return True
    return False


def compare(path: Path, owner_id: str, report: VerificationReport) -> None:
    """Add to the report what the ledger lacks of a file, or has otherwise. Raises ``AnchorError``.

    The file is an export, a file of heads, or the text of a signed note. One query per BATCH_SIZE rows.
    """
    with path.open("rb") as file:
        start = file.readline()
        file.seek(0)
        if start.startswith(b"pdpp-ledger/"):
            report.problems += _note_problems(file.read().decode(errors="replace"), owner_id)
            return
        rows = _expected(map(_parse, file), owner_id, report)
        current = {head.chain: head.seq for head in chain_heads(owner_id)}
        gone: dict[str, int] = {}
        has_rows = False
        while batch := list(islice(rows, BATCH_SIZE)):
            has_rows = True
            report.problems += _row_problems(batch, current, gone)
    if not has_rows:
        raise AnchorError("The file names no row of a ledger.")
    for chain, seq in sorted(gone.items()):
        message = f"The chain is gone; the file counts {seq} rows of it."
        report.problems.append(LedgerProblem(chain, None, f"{chain}: {message}"))


def _parse(line: bytes) -> Json:
    try:
        parsed = orjson.loads(line)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise AnchorError("The file is damaged: a line is not a JSON object.")
    return parsed


def _expected(
    lines: Iterable[Json], owner_id: str, report: VerificationReport
) -> Iterator[ChainHead]:
    """Yield the rows that the lines of a file name. Adds contradictions of its other lines."""
    for line in lines:
        if line.get("owner_id", owner_id) != owner_id:
            raise AnchorError(f"The file is of another owner: {line['owner_id']}.")
        try:
            if line["object"] == "disclosure":
                yield ChainHead(line["chain"], int(line["seq"]), bytes.fromhex(line["digest"]))
            elif line["object"] in {"checkpoint", "heads"}:
                heads = parse_heads(orjson.dumps(line["heads"]).decode())
                if not is_signed(line["note"], owner_id=owner_id, heads=heads):
                    message = f"The heads of {line['at']} in the file were not signed by this installation."
                    report.problems.append(LedgerProblem("", None, message))
                yield from heads
                if line["object"] == "heads":
                    _compare_links(line, heads, report)
        except (KeyError, TypeError, ValueError) as error:
            raise AnchorError("The file is damaged: a line lacks its columns.") from error


def _row_problems(
    expected: Iterable[ChainHead], current: dict[str, int], gone: dict[str, int]
) -> Iterator[LedgerProblem]:
    """Yield rows that are missing or differ, and note the last number of each chain that is gone."""
    for row, digest in digests_of(dict.fromkeys(expected)):
        if digest is None and row.chain not in current:
            gone[row.chain] = max(row.seq, gone.get(row.chain, 0))
        elif digest is None:
            message = f"The row is missing; the file has its digest {row.digest.hex()}."
            yield LedgerProblem(row.chain, row.seq, message)
        elif digest != row.digest:
            message = f"The row has the digest {digest.hex()}; the file has {row.digest.hex()}."
            yield LedgerProblem(row.chain, row.seq, message)


def _compare_links(line: Json, heads: list[ChainHead], report: VerificationReport) -> None:
    """Compare the record links of each chain: an erasure takes at most one from it per name."""
    links = _count_links(heads)
    erased = _count_erased() - int(line["erased_links"])
    for head in heads:
        before, after = int(line["record_links"][head.chain]), links.get(head.chain, 0)
        lost = (
            f"{head.chain}: Rows up to {head.seq} link to {after} records; the file counts {before}"
        )
        if before - after > max(erased, 0):
            message = f"{lost}, and receipts of erasures explain {max(erased, 0)}."
            report.problems.append(LedgerProblem(head.chain, None, message))
        elif after < before:
            message = f"{lost}. Receipts of erasures explain the number."
            report.warnings.append(LedgerProblem(head.chain, None, message))


def _note_problems(text: str, owner_id: str) -> Iterator[LedgerProblem]:
    note = "\n".join(text.replace("\r", "").strip().split("\n")) + "\n"
    if not Checkpoint.unscoped.filter(owner_id=owner_id, note=note).exists():
        message = "No checkpoint has the signed note of the file: checkpoints were deleted."
        yield LedgerProblem("", None, message)


def _count_links(heads: Iterable[ChainHead]) -> dict[str, int]:
    named = [*heads]
    columns = ([head.chain for head in named], [head.seq for head in named])
    return dict(fetch_all(SQL(COUNT_LINKS, (*columns, current_owner()))))


def _count_erased() -> int:
    [(count,)] = fetch_all(SQL(COUNT_ERASED, (current_owner(),)))
    return int(count)
