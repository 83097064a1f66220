"""Build the ledger entries of an answer, and write them in the transaction of its read, before it is sent.

A seal is keyed: a person who can write to the database cannot make one. A digest chains the signed
entries. Both cover the stored bytes, each part preceded by its length, so that no two entries give the
same bytes.

The transaction looks the token up, reads, and adds one entry for each grant that showed something; its
commit waits for the disk. It takes no locks on rights or records: an answer whose rights were read
before a revocation or an erasure committed may still be given, and every later request sees the change.
The counters of quotas and tripwires are charged last, so that answers of one grant wait for each other
only while they commit.

A tripwire pauses a grant that has read too large a share of a stream. Each grant and stream has a slack:
a number of records that may be shown before the next count. Each answer reduces it in its transaction.
When it is used up, one query counts the distinct records shown in the last hours, and the distance to the
limit becomes the next slack. So the limit is never passed unnoticed, and counts are rare while little of
a stream is read.
"""

import hashlib
import hmac
import itertools
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import orjson
from django.conf import settings

from evidence.access.crypto import keys_for
from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import use_once
from evidence.access.owner_notices import ReadShare, pause_by_tripwire
from evidence.access.quotas import (
    DisclosureCost,
    charge,
    effective_tripwire_share,
    schedule_recount,
)
from evidence.access.record_counts import count_records, stored_counts
from evidence.access.record_details import add_digests
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.access.sql import (
    SQL,
    bytes_array,
    fetch_all,
    fetch_prepared,
    fetch_together,
    text_array,
    time_limited_transaction,
)
from evidence.models.ledger import Disclosure

RECOUNT_DIVISOR = 20
"""The smallest slack after a count is this fraction of the limit, because counting is expensive."""
UNWATCHED_SLACK = 1_000_000

COUNT_SEEN_RECORDS = """
-- Count the distinct records of a stream that a grant has shown since a time, without erased ones.
-- Parameters: owner id, grant id, time, stream, connection ids. One query per count.
SELECT count(DISTINCT r.digest)
FROM evidence_disclosure AS d CROSS JOIN LATERAL unnest(d.record_digests) AS x(digest)
JOIN evidence_disclosedrecord AS r ON r.owner_id = d.owner_id AND r.digest = x.digest
WHERE d.owner_id = %s AND d.chain = %s AND d.at > %s AND r.stream = %s AND r.connection_id = ANY(%s::text[])
"""


def check_tripwires(scope: Scope, used_up: Iterable[tuple[str, str]], *, now: datetime) -> None:
    """Count each (grant id, stream) whose slack is used up, and pause grants over their limit.

    Call it in the transaction that wrote the ledger entry.
    """
    for grant_id, stream in used_up:
        schedule_recount(grant_id, stream, slack=_next_slack(scope, grant_id, stream, now))


def _next_slack(scope: Scope, grant_id: str, stream: str, now: datetime) -> int:
    """Return the next slack; pause the grant if it reached its limit.

    A paused grant gets the full limit again, for when the owner resumes it.
    """
    share = effective_tripwire_share(grant_id, default=settings.PDPP_TRIPWIRE_SHARE)
    if not share:
        return UNWATCHED_SLACK
    streams = list(_granted_streams(scope, grant_id, stream))
    total = sum(map(_count, streams))
    min_records: int = settings.PDPP_TRIPWIRE_RECORDS
    if total < min_records:
        return max(1, share * min_records // 100)
    limit = -(-share * total // 100)
    hours: int = settings.PDPP_TRIPWIRE_HOURS
    since = now - timedelta(hours=hours)
    granted = (entry for visible in streams for entry in visible.granted)
    ids = text_array(facts.connection_id for entry in granted for facts in entry.connections)
    seen = int(
        fetch_all(SQL(COUNT_SEEN_RECORDS, (scope.owner_id, grant_id, since, stream, ids)))[0][0]
    )
    if seen < limit:
        return max(limit - seen, limit // RECOUNT_DIVISOR, 1)
    pause_by_tripwire(grant_id, ReadShare(stream, seen, total, hours), now=now)
    return limit


def _granted_streams(scope: Scope, grant_id: str, stream: str) -> Iterable[VisibleRecords]:
    for visible in Gate(scope).streams(names=[stream]):
        granted = [entry for entry in visible.granted if entry.grant_id == grant_id]
        if granted:
            yield visible.restricted_to(*granted)


def _count(visible: VisibleRecords) -> int:
    if not visible.hides_no_rows:
        return count_records(visible)
    return sum(records for records, _ in stored_counts([visible]).values())


RECORD_DIGESTS = b"record digests"
"""Separates the columns from the record digests, so that none of one can stand for one of the other."""
NONCE_BYTES = DIGEST_BYTES = 16
GENESIS = bytes(32)
"""The digest before the first entry of a chain."""

RecordKey = tuple[str, str, str]
"""connection_id, stream and record_key."""


@dataclass(frozen=True, slots=True)
class DisclosedItem:
    """A record, or a summary of a stream, that an answer disclosed.

    `record_key` is None when no single record was shown (an aggregate, an empty list).
    `fields` are the fields that the answer discloses.
    """

    connection_id: str
    stream: str
    record_key: str | None
    fields: frozenset[str]

    @property
    def key(self) -> RecordKey | None:
        return (
            None if self.record_key is None else (self.connection_id, self.stream, self.record_key)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosedAnswer:
    """An answer to record before it is sent.

    An answer without items counts for `charged_grants`. `counted` is the number of records behind a
    number that it shows.
    """

    route: str
    request_id: str
    items: Sequence[DisclosedItem]
    size_bytes: int
    charged_grants: Sequence[str] = ()
    counted: int | None = None


def make_seal(entry: Disclosure) -> bytes:
    """Return the HMAC-SHA256 of every column under the installation's current key."""
    return hmac.digest(keys_for("ledger")[0], b"".join(_parts(entry)), hashlib.sha256)


def is_sealed(entry: Disclosure) -> bool:
    """Return whether this installation made the seal, with its current key or a previous one."""
    content = b"".join(_parts(entry))
    valid = (hmac.digest(key, content, hashlib.sha256) for key in keys_for("ledger"))
    return any(hmac.compare_digest(bytes(entry.seal), each) for each in valid)


def chain_digest(entry: Disclosure, previous: bytes, seq: int) -> bytes:
    """Return the SHA-256 of the digest of the entry before, the number, every column and the seal."""
    digest = hashlib.sha256()
    for part in (
        _part(previous),
        _part(str(seq).encode()),
        *_parts(entry),
        _part(bytes(entry.seal)),
    ):
        digest.update(part)
    return digest.digest()


def _parts(entry: Disclosure) -> Iterable[bytes]:
    # PostgreSQL stores microseconds.
    microseconds = round(entry.at.timestamp() * 1_000_000)
    columns = (
        entry.owner_id, entry.entry_id, entry.chain, microseconds, entry.client_id, entry.token_id,
        entry.request_id, entry.route, entry.covered, entry.record_count,
        "" if entry.counted is None else entry.counted, entry.size_bytes,
    )  # fmt: skip
    yield from (_part(str(column).encode()) for column in columns)
    yield _part(RECORD_DIGESTS)
    yield from map(_part, map(bytes, entry.record_digests))


def _part(content: bytes) -> bytes:
    return b"%d:%s" % (len(content), content)


class ChainHead(NamedTuple):
    """The last signed entry of a chain."""

    chain: str
    seq: int
    digest: bytes


def record_digest(nonce: bytes, key: RecordKey) -> bytes:
    """Return the HMAC-SHA256 of a record key under its nonce, cut to 16 bytes.

    The nonce is random and is deleted with the record. After that nobody can test a guess, even
    with the server's own keys. The digest uses no installation key, so that rows still verify
    after a key rotation.
    """
    message = b"".join(map(_part, map(str.encode, key)))
    return hmac.digest(nonce, message, hashlib.sha256)[:DIGEST_BYTES]


def owner_chain(owner_id: str) -> str:
    """Return the name of the chain of the owner's own reads."""
    return f"own:{owner_id}"


def items_by_chain(scope: Scope, answer: DisclosedAnswer) -> dict[str, list[DisclosedItem]]:
    """Return the items by the chain of the grant that showed them, in the order of the chains.

    An answer without items gets an empty entry for each of its charged grants, or for the first
    grant of the scope.
    """
    if scope.package_id is None:
        return {owner_chain(scope.owner_id): list(answer.items)}
    grants = _grant_ids(scope)
    chains: dict[str, list[DisclosedItem]] = {}
    for item in answer.items:
        chains.setdefault(grants[item.connection_id, item.stream], []).append(item)
    charged = answer.charged_grants or [str(scope.grants[0].grant_id)]
    return dict(sorted(chains.items())) or {grant_id: [] for grant_id in sorted(charged)}


def _grant_ids(scope: Scope) -> dict[tuple[str, str], str]:
    """Return the grant id for each (connection id, stream); the first grant wins, as at the gate."""
    return {
        (connection_id, terms.name): str(grant.grant_id)
        for grant in reversed(scope.grants)
        for terms in grant.streams
        for connection_id in terms.connection_ids
    }


def record_keys(items: Iterable[DisclosedItem]) -> list[RecordKey]:
    """Return the records of the items, each once, in order."""
    return sorted({key for item in items if (key := item.key) is not None})


def build_entries(
    scope: Scope,
    answer: DisclosedAnswer,
    chains: dict[str, list[DisclosedItem]],
    digests: dict[RecordKey, bytes],
    *,
    now: datetime,
) -> list[Disclosure]:
    """Return one entry per chain, not sealed; bytes are divided by the number of items."""
    sizes = divide_bytes(answer.size_bytes, [len(items) for items in chains.values()])
    entries = []
    for (chain, items), size in zip(chains.items(), sizes, strict=True):
        # In the order of the digests, which are random, so that it reveals nothing about the records.
        named = sorted(digests[key] for key in record_keys(items))
        entries.append(
            Disclosure(
                owner_id=scope.owner_id,
                entry_id=uuid4(),
                chain=chain,
                at=now,
                client_id=scope.client_id or "",
                token_id=scope.token_id,
                request_id=answer.request_id,
                route=answer.route,
                covered=covered_json(items),
                record_count=len(named),
                counted=answer.counted,
                size_bytes=size,
                record_digests=named,
            )
        )
    return entries


def covered_json(items: Iterable[DisclosedItem]) -> str:
    """Return JSON `[[connection_id, stream, [field, …], records], …]`.

    `records` counts the records of that stream, each once; it is missing if there are none.
    """
    fields: dict[tuple[str, str], set[frozenset[str]]] = {}
    keys: dict[tuple[str, str], set[str]] = {}
    for item in items:
        stream = (item.connection_id, item.stream)
        fields.setdefault(stream, set()).add(item.fields)
        if item.record_key is not None:
            keys.setdefault(stream, set()).add(item.record_key)
    rows: list[list[Any]] = [
        [
            *stream,
            sorted(frozenset().union(*names)),
            *([len(keys[stream])] if stream in keys else []),
        ]
        for stream, names in sorted(fields.items())
    ]
    return orjson.dumps(rows).decode()


def divide_bytes(total: int, weights: Sequence[int]) -> list[int]:
    """Divide `total` in proportion to the weights, without a remainder; equally if all are 0."""
    weights = weights if sum(weights) else [1] * len(weights)
    shares, allocated, cumulative = [], 0, 0
    for weight in weights:
        cumulative += weight
        boundary = total * cumulative // sum(weights)
        shares.append(boundary - allocated)
        allocated = boundary
    return shares


FIND_DIGESTS = """
-- Find the digests of records that were disclosed before. Parameters: connection ids, streams, keys,
-- owner id. One query per answer with records.
SELECT d.connection_id, d.stream, d.record_key, d.digest
FROM unnest(%s::text[], %s::text[], %s::text[]) AS n(connection_id, stream, record_key)
JOIN evidence_disclosedrecord AS d ON d.owner_id = %s AND d.connection_id = n.connection_id
    AND d.stream = n.stream AND d.record_key = n.record_key
"""

COUNT_DOWN = """
-- Reduce the slack of streams, first {slack}, by the records that an answer shows. Parameters: owner id, grant
-- ids, streams, records. One query per answer with records.
INSERT INTO evidence_watch AS w (owner_id, grant_id, stream, slack)
SELECT %s, n.grant_id, n.stream, {slack} - n.records
FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS n(grant_id, stream, records)
ORDER BY 2, 3
ON CONFLICT (owner_id, grant_id, stream) DO UPDATE SET slack = w.slack + excluded.slack - {slack}
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
    digests = _digests(scope.owner_id, record_keys(itertools.chain.from_iterable(chains.values())))
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


def _insert(owner_id: str, entries: Sequence[Disclosure]) -> SQL:
    # Integers as text, because the driver would prepare a statement for each of their sizes.
    rows = [
        (
            owner_id, each.entry_id, each.chain, each.at, each.client_id, each.token_id,
            each.request_id, each.route, each.covered, str(each.record_count),
            None if each.counted is None else str(each.counted), str(each.size_bytes),
            bytes_array(map(bytes, each.record_digests)), make_seal(each),
        )
        for each in entries
    ]  # fmt: skip
    text = ADD_ENTRIES.format(rows=", ".join([PLACEHOLDERS] * len(rows)))
    return SQL(text, tuple(itertools.chain.from_iterable(rows)))


def _count_down(owner_id: str, chains: dict[str, list[DisclosedItem]]) -> list[SQL]:
    """Return the statement that counts the records of each grant and stream, if there are any."""
    shown = Counter(
        (grant_id, stream)
        for grant_id, items in chains.items()
        for _, stream, _ in record_keys(items)
    )
    if not shown:
        return []
    slack, streams = _initial_slack(), sorted(shown)
    columns = [text_array(each[column] for each in streams) for column in range(2)]
    records = text_array(str(shown[each]) for each in streams)
    # A cluster sends a number after ON CONFLICT to a node only as a constant.
    return [SQL(COUNT_DOWN.format(slack=slack), (owner_id, *columns, records))]


def _initial_slack() -> int:
    """Return the slack of a stream that has not been counted yet, in records."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED_SLACK
