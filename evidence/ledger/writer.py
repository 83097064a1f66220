"""Write the ledger entries of an answer in the transaction of its read, before it is sent.

The transaction looks the token up, reads, and adds one entry for each grant that showed something; its
commit waits for the disk. It takes no locks on rights or records: an answer whose rights were read
before a revocation or an erasure committed may still be given, and every later request sees the change.
The counters of quotas and tripwires are charged last, so that answers of one grant wait for each other
only while they commit.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain
from typing import Any

from django.conf import settings

from evidence.access.grant_lifecycle import use_once
from evidence.access.quotas import DisclosureCost, charge
from evidence.access.record_parts import add_digests
from evidence.access.scope import Scope
from evidence.access.sql import (
    SQL,
    bytes_array,
    fetch_prepared,
    fetch_together,
    text_array,
    time_limited_transaction,
)
from evidence.ledger.entries import (
    DIGEST_BYTES,
    NONCE_BYTES,
    DisclosedAnswer,
    DisclosedItem,
    LedgerEntry,
    RecordKey,
    build_entries,
    items_by_chain,
    record_digest,
    record_keys,
)
from evidence.ledger.tripwire import UNWATCHED_SLACK, check_tripwires

FIND_DIGESTS = """
-- Find the digests of records that were disclosed before. Parameters: connection ids, streams, keys,
-- owner id. One query per answer with records.
SELECT d.connection_id, d.stream, d.record_key, d.digest
FROM unnest(%s::text[], %s::text[], %s::text[]) AS n(connection_id, stream, record_key)
JOIN evidence_disclosedrecord AS d ON d.owner_id = %s AND d.connection_id = n.connection_id
    AND d.stream = n.stream AND d.record_key = n.record_key
"""

COUNT_DOWN = """
-- Reduce the slack of streams by the records that an answer shows. Parameters: owner id, slack of a stream
-- that was never counted, grant ids, streams, records, that slack. One query per answer with records.
INSERT INTO evidence_watch AS w (owner_id, grant_id, stream, slack)
SELECT %s, n.grant_id, n.stream, %s::bigint - n.records
FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS n(grant_id, stream, records)
ORDER BY 2, 3
ON CONFLICT (owner_id, grant_id, stream) DO UPDATE SET slack = w.slack + excluded.slack - %s::bigint
RETURNING grant_id, stream, slack
"""

COLUMNS = {
    "owner_id": "text", "entry_id": "uuid", "chain": "text", "at": "timestamptz", "client_id": "text",
    "token_id": "text", "request_id": "text", "route": "text", "covered": "text",
    "record_count": "int", "counted": "bigint", "size_bytes": "bigint",
    "record_digests": "bytea[]", "seal": "bytea",
}  # fmt: skip
ADD_ENTRIES = f"""
-- Add entries to the ledger. Parameters: the columns of each. One query per answer.
INSERT INTO evidence_disclosure ({", ".join(COLUMNS)}) VALUES {{rows}}
"""  # noqa: S608 - of constants
PLACEHOLDERS = "(" + ", ".join(f"%s::{kind}" for kind in COLUMNS.values()) + ")"
WAIT_FOR_DISK = SQL("SET LOCAL synchronous_commit = on")
"""The commit waits for the disk even where the database would not: no answer may lose its entry."""


def recorded_read() -> AbstractContextManager[None]:
    """Open the transaction of a read and its entries, within the time limit of a read."""
    return time_limited_transaction(settings.PDPP_STATEMENT_TIMEOUT)


def record_disclosure(scope: Scope, answer: DisclosedAnswer, *, now: datetime) -> None:
    """Charge each grant that the answer used, and add an entry to its chain, inside a transaction.

    Raises RateLimitExceeded, GrantConsumed or a database error; the caller must then send no data.
    """
    chains = items_by_chain(scope, answer)
    digests = _digests(scope.owner_id, record_keys(chain.from_iterable(chains.values())))
    entries = build_entries(scope, answer, chains, digests, now=now)
    if any(grant.limits for grant in scope.grants):
        costs = {each.chain: DisclosureCost(each.record_count, each.size_bytes) for each in entries}
        charge(scope, costs, now=now)
    if any(grant.single_use for grant in scope.grants):
        use_once(scope, (name for name, items in chains.items() if items), now=now)
    counted = [] if scope.package_id is None else _count_down(scope.owner_id, chains)
    *_, slacks = fetch_together(WAIT_FOR_DISK, _insert(scope.owner_id, entries), *counted)
    if used_up := [(each[0], each[1]) for each in slacks if each[2] <= 0]:
        check_tripwires(scope, used_up, now=now)


def _digests(owner_id: str, keys: Sequence[RecordKey]) -> dict[RecordKey, bytes]:
    """Return the digest by which entries name each record.

    A record that was erased meanwhile gets a digest that nothing links to it. At most three queries.
    """
    if not keys:
        return {}
    found = _find(owner_id, keys)
    if missing := [key for key in keys if key not in found]:
        nonces = [secrets.token_bytes(NONCE_BYTES) for _ in missing]
        new = [record_digest(nonce, key) for nonce, key in zip(nonces, missing, strict=True)]
        found |= _by_key(add_digests(missing, nonces, new))
    if missing := [key for key in keys if key not in found]:  # another answer was first
        found |= _find(owner_id, missing)
    return {key: found.get(key) or secrets.token_bytes(DIGEST_BYTES) for key in keys}


def _find(owner_id: str, keys: Sequence[RecordKey]) -> dict[RecordKey, bytes]:
    return _by_key(fetch_prepared(SQL(FIND_DIGESTS, (*_columns(keys), owner_id))))


def _by_key(rows: Iterable[tuple[Any, ...]]) -> dict[RecordKey, bytes]:
    return {row[:3]: bytes(row[3]) for row in rows}


def _columns(keys: Sequence[RecordKey]) -> list[str]:
    return [text_array(key[column] for key in keys) for column in range(3)]


def _insert(owner_id: str, entries: Sequence[LedgerEntry]) -> SQL:
    # Integers as text, because the driver would prepare a statement for each of their sizes.
    rows = [
        (
            owner_id, each.entry_id, each.chain, each.at, each.client_id, each.token_id,
            each.request_id, each.route, each.covered, str(each.record_count),
            None if each.counted is None else str(each.counted), str(each.size_bytes),
            bytes_array(each.record_digests), each.seal(),
        )
        for each in entries
    ]  # fmt: skip
    text = ADD_ENTRIES.format(rows=", ".join([PLACEHOLDERS] * len(rows)))
    return SQL(text, tuple(chain.from_iterable(rows)))


def _count_down(owner_id: str, chains: dict[str, list[DisclosedItem]]) -> list[SQL]:
    """Return the statement that counts the records of each grant and stream, if there are any."""
    shown = Counter(
        (grant_id, stream)
        for grant_id, items in chains.items()
        for _, stream, _ in record_keys(items)
    )
    if not shown:
        return []
    slack, streams = str(_initial_slack()), sorted(shown)
    columns = [text_array(each[column] for each in streams) for column in range(2)]
    records = text_array(str(shown[each]) for each in streams)
    return [SQL(COUNT_DOWN, (owner_id, slack, *columns, records, slack))]


def _initial_slack() -> int:
    """Return the slack of a stream that has not been counted yet, in records."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED_SLACK
