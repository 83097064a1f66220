"""Copies of the ledger's signed heads outside of the database, and the comparison with a copy.

Someone with all rights on the database can empty the tables of the ledger together, and what is left
is a valid ledger. A file elsewhere still names the rows: an export, or the heads alone, which are
small enough to be written every day. A heads line also has, by chain, the number of records that the
chain's rows up to the head still link to; it is not part of the signature.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

import orjson

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.checkpoints import chain_heads, is_signed, parse_heads, signed_note
from evidence.ledger.entries import ChainHead
from evidence.ledger.verification import (
    BATCH_SIZE,
    Json,
    LedgerProblem,
    VerificationReport,
    digests_of,
)
from evidence.models.ledger import Checkpoint
from evidence.models.owners import current_owner

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
