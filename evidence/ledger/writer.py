"""Write the ledger entries of a response in the transaction that read it.

A response takes two statements, whatever its size. The first assigns pseudonyms to the records and
locks the chains; the second adds the rows and moves the chain heads. Both lock records before chains,
each in order, so that concurrent responses cannot deadlock.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.db import OperationalError, transaction
from prometheus_client import Counter as Metric

from evidence.access.grant_lifecycle import use_once
from evidence.access.quotas import DisclosureCost, charge
from evidence.access.scope import Scope
from evidence.access.sql import SQL, fetch_all_generic_plan, time_limited
from evidence.ledger.entries import (
    GENESIS,
    ChainHead,
    DisclosedItem,
    LedgerEntry,
    RecordKey,
    RecordReference,
    covered_json,
    divide_bytes,
    group_by_chain,
    seal,
)
from evidence.ledger.tripwire import UNWATCHED_SLACK, check_tripwires
from evidence.models.erasures import FIND_ERASED, SHARE_ERASURE_LOCK

LEDGER_ROWS = Metric("pdpp_ledger_rows", "Ledger rows written")

R = TypeVar("R")
ATTEMPTS = 3

# Commit waits for the disk, whatever synchronous_commit is: no response may lose its row, even in a
# power failure.
LOCK_CHAINS = f"""
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)),
shown AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
),
known AS MATERIALIZED (
    SELECT p.* FROM shown s JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
),
unnamed AS MATERIALIZED (
    SELECT * FROM shown WHERE (connection_id, stream, record_key) NOT IN
        (SELECT connection_id, stream, record_key FROM known)
),
shared AS MATERIALIZED (
    {SHARE_ERASURE_LOCK} FROM (SELECT DISTINCT connection_id FROM unnamed ORDER BY 1) AS c
),
new AS (
    INSERT INTO evidence_pseudonym (connection_id, stream, record_key, pseudonym)
    SELECT connection_id, stream, record_key, gen_random_uuid() FROM unnamed
    WHERE (SELECT count(*) FROM shared) > 0
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING
    RETURNING connection_id, stream, record_key, pseudonym, nonce
),
held AS (
    INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
    SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c), durable ORDER BY c
    ON CONFLICT (chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
)
SELECT connection_id, stream, record_key, pseudonym, nonce, true, NULL::bigint, NULL::bytea FROM known
UNION ALL SELECT connection_id, stream, record_key, pseudonym, nonce, false, NULL, NULL FROM new
UNION ALL SELECT chain, NULL, NULL, NULL, NULL, NULL, seq, digest FROM held
"""  # noqa: S608 - of constants
# Read the pseudonyms that a concurrent transaction inserted first.
SELECT_PSEUDONYMS = """
SELECT p.connection_id, p.stream, p.record_key, p.pseudonym, p.nonce
FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
"""
DISCLOSURE_COLUMNS = (
    "chain, seq, at, client_id, token_id, request_id, route, covered, record_count, size_bytes,"
    " pseudonyms, record_digests, previous, digest"
)
ROW_PLACEHOLDERS = "(" + ", ".join(["%s"] * 10) + ", %s::uuid[], %s::bytea[], %s, %s)"
INSERT_DISCLOSURES = """
WITH added AS (INSERT INTO evidence_disclosure ({columns}) VALUES {rows}),
moved AS (
    UPDATE evidence_chain c SET seq = n.seq, digest = n.digest, seal = n.seal
    FROM unnest(%s::text[], %s::bigint[], %s::bytea[], %s::bytea[]) AS n(chain, seq, digest, seal)
    WHERE c.chain = n.chain
),
watched AS (
    INSERT INTO evidence_watch AS w (grant_id, stream, slack)
    SELECT n.grant_id, n.stream, %s - n.shown
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS n(grant_id, stream, shown)
    ON CONFLICT (grant_id, stream) DO UPDATE SET slack = w.slack + excluded.slack - %s
    RETURNING w.grant_id, w.stream, w.slack
)
SELECT grant_id, stream FROM watched WHERE slack <= 0
"""
NULL_ROW_IF_ERASED = f"UNION ALL SELECT NULL, NULL WHERE EXISTS ({FIND_ERASED})"


class ErasedDuringReadError(OperationalError):
    """A record without a pseudonym was erased between the read and its ledger entry."""


class LockedChains(NamedTuple):
    """References to the records, the records that had no pseudonym before, and the chain heads."""

    references: Mapping[RecordKey, RecordReference]
    unnamed: Sequence[RecordKey]
    heads: Sequence[ChainHead]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosedAnswer:
    """A response to record before it is sent.

    A response without items counts for `charged_grants`.
    """

    route: str
    request_id: str
    items: Sequence[DisclosedItem]
    size_bytes: int
    charged_grants: Sequence[str] = ()


def read_and_record(read: Callable[[], R], record: Callable[[R], None]) -> R:
    """Run `read` and `record` in one transaction, and return what `read` returned.

    Both run again when a record was erased between them, up to ATTEMPTS times.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return _read_and_record_once(read, record)
        except ErasedDuringReadError:
            pass
    return _read_and_record_once(read, record)


@transaction.atomic(savepoint=False)
def _read_and_record_once(read: Callable[[], R], record: Callable[[R], None]) -> R:
    with time_limited(settings.PDPP_STATEMENT_TIMEOUT):
        result = read()
        record(result)
    return result


def record_disclosure(scope: Scope, answer: DisclosedAnswer, *, now: datetime) -> None:
    """Charge each grant that the response used, and add an entry to its chain.

    Call it inside the transaction of the read. Raises RateLimitExceeded before anything is written,
    ErasedDuringReadError, GrantConsumed or a database error; the caller must then send no data.
    """
    chains = group_by_chain(scope, answer.items, charged_grants=answer.charged_grants)
    shares = divide_bytes(answer.size_bytes, [*map(len, chains.values())])
    sizes = dict(zip(chains, shares, strict=True))
    costs = {
        chain: DisclosureCost(len(_keys(items)), sizes[chain]) for chain, items in chains.items()
    }
    charge(scope, costs, now=now)
    locked = _lock_chains(sorted(_keys(answer.items)), sorted(chains), owner_id=scope.owner_id)
    entries = [
        (
            head.digest,
            LedgerEntry(
                chain=head.chain,
                seq=head.seq + 1,
                at=now,
                client_id=scope.client_id or "",
                token_id=scope.token_id,
                request_id=answer.request_id,
                route=answer.route,
                covered=covered_json(chains[head.chain]),
                record_count=len(references),
                size_bytes=sizes[head.chain],
                pseudonyms=tuple(reference.pseudonym for reference in references),
                record_digests=tuple(reference.digest for reference in references),
            ),
        )
        for head in locked.heads
        for references in [_sorted_references(chains[head.chain], locked.references)]
    ]
    if used_up := _insert_entries(entries, _record_counts(scope, chains), unnamed=locked.unnamed):
        check_tripwires(scope, used_up, now=now)
    if any(grant.single_use for grant in scope.grants):
        use_once(scope, (chain for chain in chains if _discloses(chains[chain])), now=now)
    transaction.on_commit(partial(LEDGER_ROWS.inc, len(entries)))


def _lock_chains(
    keys: Sequence[RecordKey], chains: Sequence[str], *, owner_id: str
) -> LockedChains:
    references: dict[RecordKey, RecordReference] = {}
    known: set[RecordKey] = set()
    heads: list[ChainHead] = []
    columns = _columns(keys)
    values = (*columns, owner_id, GENESIS, list(chains))
    # A row is a pseudonym (connection, stream, key, pseudonym, nonce, was known) or a chain head.
    for first, stream, key, pseudonym, nonce, was_known, seq, digest in fetch_all_generic_plan(
        SQL(LOCK_CHAINS, values)
    ):
        if pseudonym is None:
            heads.append(ChainHead(first, seq, bytes(digest)))
            continue
        record_key = (first, stream, key)
        references[record_key] = RecordReference.from_nonce(record_key, pseudonym, nonce)
        if was_known:
            known.add(record_key)
    if len(references) < len(keys):
        rows = fetch_all_generic_plan(SQL(SELECT_PSEUDONYMS, tuple(columns)))
        references |= {row[:3]: RecordReference.from_nonce(row[:3], *row[3:]) for row in rows}
    return LockedChains(references, [key for key in keys if key not in known], heads)


def _insert_entries(
    entries: Sequence[tuple[bytes, LedgerEntry]],
    counts: Sequence[tuple[str, str, int]],
    *,
    unnamed: Sequence[RecordKey],
) -> Sequence[tuple[str, str]]:
    """Insert the entries and return the (grant, stream) pairs that the tripwire must count.

    Raises ErasedDuringReadError when a record of `unnamed` was erased.
    """
    values: list[Any] = []
    heads: list[ChainHead] = []
    for previous, entry in entries:
        digest = entry.digest(previous)
        heads.append(ChainHead(entry.chain, entry.seq, digest))
        values += [
            entry.chain, entry.seq, entry.at, entry.client_id, entry.token_id, entry.request_id,
            entry.route, entry.covered, entry.record_count, entry.size_bytes,
            list(entry.pseudonyms), list(entry.record_digests or ()), previous, digest,
        ]  # fmt: skip
    placeholders = ", ".join([ROW_PLACEHOLDERS] * len(heads))
    statement = INSERT_DISCLOSURES.format(columns=DISCLOSURE_COLUMNS, rows=placeholders)
    values += [
        [head.chain for head in heads],
        [head.seq for head in heads],
        [head.digest for head in heads],
        [seal(head) for head in heads],
    ]
    slack = _initial_slack()
    values += [slack, *([row[column] for row in counts] for column in range(3)), slack]
    if unnamed:
        statement += NULL_ROW_IF_ERASED
        values += _columns(unnamed)
    rows = fetch_all_generic_plan(SQL(statement, tuple(values)))
    if (None, None) in rows:
        raise ErasedDuringReadError
    return [(grant_id, stream) for grant_id, stream in rows]


def _initial_slack() -> int:
    """Return the slack of a stream that has not been counted yet, in records."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED_SLACK


def _record_counts(
    scope: Scope, chains: Mapping[str, Sequence[DisclosedItem]]
) -> list[tuple[str, str, int]]:
    """Return sorted (grant, stream, records shown); empty for the owner's own reads."""
    if scope.package_id is None:
        return []
    counts = Counter(
        (chain, stream) for chain, items in chains.items() for _, stream, _ in _keys(items)
    )
    return sorted((chain, stream, records) for (chain, stream), records in counts.items())


def _columns(keys: Sequence[RecordKey]) -> list[list[str]]:
    return [[key[column] for key in keys] for column in range(3)]


def _keys(items: Iterable[DisclosedItem]) -> set[RecordKey]:
    return {
        (item.connection_id, item.stream, item.record_key)
        for item in items
        if item.record_key is not None
    }


def _discloses(items: Iterable[DisclosedItem]) -> bool:
    """Return whether a record or a value was shown, and not only the names of streams."""
    return any(item.record_key is not None or item.fields for item in items)


def _sorted_references(
    items: Iterable[DisclosedItem], references: Mapping[RecordKey, RecordReference]
) -> list[RecordReference]:
    return sorted(references[key] for key in _keys(items))
