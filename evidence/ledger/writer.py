"""Write the ledger entries of a response before it is sent.

Usually one round trip is enough: a statement compares the ends of the chains with those that this
process wrote last, checks the rights and the records of the response again, and moves the ends; another
adds the entries. If anything has changed, a transaction locks the chains, assigns pseudonyms to records
that were never shown, charges quotas, and then runs the same statements. Records are locked before
chains, each in order, so that concurrent responses cannot deadlock.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError, transaction

from evidence.access.grant_lifecycle import use_once
from evidence.access.grant_states import COUNT_USABLE_GRANTS, FIND_ENDED_BEARER
from evidence.access.pseudonyms import find_erased
from evidence.access.quotas import DisclosureCost, charge
from evidence.access.scope import Scope
from evidence.access.sql import (
    SQL,
    fetch_together,
    text_array,
    time_limited,
)
from evidence.ledger.chain_locks import lock_chains
from evidence.ledger.entries import (
    AnswerDraft,
    ChainHead,
    DisclosedAnswer,
    DisclosedItem,
    LedgerEntry,
    RecordKey,
    RecordReference,
    seal,
)
from evidence.ledger.tripwire import UNWATCHED_SLACK, check_tripwires

R = TypeVar("R")
ATTEMPTS = 3
MAX_KNOWN = 10_000
CHAIN_LOCK_SECONDS = 1.0

_heads: dict[str, ChainHead] = {}
"""The ends of chains as this process wrote them last. The database decides whether they still are."""
_references: dict[tuple[str, RecordKey], RecordReference] = {}
"""References to records that were shown recently, by owner id and record. The database decides whether
they still exist."""
_chain_locks = [threading.Lock() for _ in range(64)]
"""Responses of one chain take turns, so that each knows the end that the one before it wrote."""


HEAD_TYPES = {
    "chain": "text", "seq": "bigint", "at": "timestamptz", "previous": "bytea", "digest": "bytea",
    "seal": "bytea",
}  # fmt: skip
ENTRY_TYPES = {
    "chain": "text", "seq": "bigint", "at": "timestamptz", "client_id": "text", "token_id": "text",
    "request_id": "text", "route": "text", "covered": "text", "record_count": "int",
    "size_bytes": "bigint", "pseudonyms": "uuid[]", "record_digests": "bytea[]",
    "previous": "bytea", "digest": "bytea",
}  # fmt: skip
SHOWN_TYPES = {"grant_id": "text", "stream": "text", "records": "bigint"}

# The commit waits for the disk, whatever synchronous_commit is: no response may lose its row, even in
# a power failure. FOR UPDATE reads the ends of the chains again after waiting for another response.
MOVE_CHAINS = f"""
-- Move the ends of chains past one response if nothing has changed since it was read: its chains end where
-- the caller says, its token, grants and connections are usable, and its records have their pseudonyms.
-- Otherwise write nothing.
-- Parameters: new ends; grants, streams and records shown; owner id; number of chains; owner
-- id, number of grants; owner id, connection ids, their number; owner id, pseudonyms, connection ids, number of pseudonyms;
-- owner id, token id; owner id, number of streams that must be far from their tripwire, or 0; owner id, owner
-- id. One query.
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)),
entry ({", ".join(HEAD_TYPES)}) AS (VALUES {{entries}}),
shown ({", ".join(SHOWN_TYPES)}) AS (VALUES {{shown}}),
held AS MATERIALIZED (
    SELECT c.chain FROM evidence_chain AS c JOIN entry AS e ON e.chain = c.chain
    WHERE c.owner_id = %s AND c.seq = e.seq - 1 AND c.digest = e.previous
    ORDER BY c.chain FOR UPDATE OF c
),
verdict AS MATERIALIZED (
    SELECT (SELECT count(*) FROM held) = %s
        AND ({COUNT_USABLE_GRANTS}) = %s
        AND (SELECT count(*) FROM evidence_connection AS n
            WHERE n.owner_id = %s AND n.connection_id = ANY(%s::text[]) AND n.status <> 'revoked') = %s
        AND (SELECT count(DISTINCT p.pseudonym) FROM evidence_pseudonym AS p
            WHERE p.owner_id = %s AND p.pseudonym = ANY(%s::uuid[]) AND p.connection_id = ANY(%s::text[])) = %s
        AND NOT EXISTS ({FIND_ENDED_BEARER})
        AND (SELECT count(*) FROM shown AS s JOIN evidence_watch AS w
            ON w.owner_id = %s AND w.grant_id = s.grant_id AND w.stream = s.stream WHERE w.slack > s.records) >= %s
        {{not_erased}} AS is_unchanged
    FROM durable
),
moved AS (
    UPDATE evidence_chain AS c SET seq = e.seq, digest = e.digest, seal = e.seal
    FROM entry AS e, verdict
    WHERE c.owner_id = %s AND c.chain = e.chain AND is_unchanged
),
watched AS (
    UPDATE evidence_watch AS w SET slack = w.slack - s.records FROM shown AS s, verdict
    WHERE w.owner_id = %s AND w.grant_id = s.grant_id AND w.stream = s.stream AND is_unchanged
    RETURNING w.grant_id, w.stream, w.slack
)
SELECT is_unchanged, NULL AS grant_id, NULL AS stream FROM verdict
UNION ALL SELECT true, grant_id, stream FROM watched WHERE slack <= 0
"""  # noqa: S608 - of constants
# A statement of its own, because a cluster sends an INSERT within another statement to no node whole.
ADD_ENTRIES = f"""
-- Add the entries at which the chains now end, or none if the chains did not move. Parameters: entries; owner id.
INSERT INTO evidence_disclosure (owner_id, {", ".join(ENTRY_TYPES)})
SELECT c.owner_id, e.* FROM (VALUES {{entries}}) AS e ({", ".join(ENTRY_TYPES)})
JOIN evidence_chain AS c ON c.chain = e.chain AND c.seq = e.seq AND c.digest = e.digest
WHERE c.owner_id = %s
"""  # noqa: S608 - of constants


class ChangedDuringReadError(OperationalError):
    """A record was erased, or a right ended, between the read and its ledger entry."""


def read_and_record(read: Callable[[], R], record: Callable[[R], None]) -> R:
    """Run `read` and `record`, and return what `read` returned.

    Both run again when a record was erased or a right ended between them, up to ATTEMPTS times.
    """
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ChangedDuringReadError):
            return _read_and_record_once(read, record)
    return _read_and_record_once(read, record)


def _read_and_record_once(read: Callable[[], R], record: Callable[[R], None]) -> R:
    with time_limited(settings.PDPP_STATEMENT_TIMEOUT):
        result = read()
        record(result)
    return result


def record_disclosure(scope: Scope, answer: DisclosedAnswer, *, now: datetime) -> None:
    """Charge each grant that the response used, and add an entry to its chain.

    Raises RateLimitExceeded before anything is written, ChangedDuringReadError, GrantConsumed or a
    database error; the caller must then send no data.
    """
    draft = AnswerDraft(scope, answer, now)
    if not _record_at_once(draft):
        with transaction.atomic():
            _record_in_transaction(draft)


def _record_at_once(draft: AnswerDraft) -> bool:
    """Record in one round trip. Returns False, and writes nothing, if a transaction must do it."""
    if draft.needs_transaction:
        return False
    owner_id = draft.scope.owner_id
    references = {key: _references.get((owner_id, key)) for key in draft.all_keys}
    known = {key: reference for key, reference in references.items() if reference is not None}
    if len(known) < len(references):
        return False
    with _exclusive(draft.chains) as is_locked:
        heads = [_heads[chain] for chain in draft.chains if chain in _heads]
        if not is_locked or len(heads) < len(draft.chains):
            return False
        return _insert(draft, heads, known, slack_needed=len(draft.shown)) is not None


def _record_in_transaction(draft: AnswerDraft) -> None:
    """Charge quotas, lock the chains, record, and count for tripwires and single use."""
    costs = {
        chain: DisclosureCost(len(keys), draft.sizes[chain]) for chain, keys in draft.keys.items()
    }
    charge(draft.scope, costs, now=draft.now)
    heads, references, unnamed = lock_chains(draft, initial_slack=_initial_slack())
    if len(references) < len(draft.all_keys):  # a connection was erased, which takes no names
        raise ChangedDuringReadError
    used_up = _insert(draft, heads, references, unnamed=unnamed)
    if used_up is None:
        raise ChangedDuringReadError
    if used_up:
        check_tripwires(draft.scope, used_up, now=draft.now)
    if any(grant.single_use for grant in draft.scope.grants):
        disclosing = (chain for chain, items in draft.chains.items() if _discloses(items))
        use_once(draft.scope, disclosing, now=draft.now)


@contextlib.contextmanager
def _exclusive(chains: Iterable[str]) -> Iterator[bool]:
    """Yield whether this thread alone records for these chains, in this process."""
    with contextlib.ExitStack() as held:
        for number in sorted({hash(chain) % len(_chain_locks) for chain in chains}):
            lock = _chain_locks[number]
            if not lock.acquire(timeout=CHAIN_LOCK_SECONDS):
                yield False
                return
            held.callback(lock.release)
        yield True


def _insert(
    draft: AnswerDraft,
    heads: Sequence[ChainHead],
    references: Mapping[RecordKey, RecordReference],
    *,
    unnamed: Sequence[RecordKey] = (),
    slack_needed: int = 0,
) -> list[tuple[str, str]] | None:
    """Insert the entries and return the (grant, stream) pairs that the tripwire must count.

    Returns None, and has written nothing, if something has changed since it was read.
    """
    owner_id = draft.scope.owner_id
    entries = [draft.entry(head, references) for head in heads]
    new_heads = [
        ChainHead(entry.chain, entry.seq, entry.digest(head.digest))
        for entry, head in zip(entries, heads, strict=True)
    ]
    ends = [
        (new.chain, str(new.seq), draft.now, old.digest, new.digest, seal(new))
        for old, new in zip(heads, new_heads, strict=True)
    ]
    rows = [
        (*_row(entry), old.digest, new.digest)
        for entry, old, new in zip(entries, heads, new_heads, strict=True)
    ]
    move = _move_chains(draft, references, unnamed, ends, slack_needed)
    add = ADD_ENTRIES.format(entries=_placeholders(ENTRY_TYPES, rows))
    moved, _ = fetch_together(move, SQL(add, (*chain.from_iterable(rows), owner_id)))
    (is_unchanged, *_), *used_up = moved
    if not is_unchanged:
        return None
    _remember(new_heads, references, owner_id)
    return [(grant_id, stream) for _, grant_id, stream in used_up]


def _move_chains(
    draft: AnswerDraft,
    references: Mapping[RecordKey, RecordReference],
    unnamed: Sequence[RecordKey],
    ends: Sequence[tuple[Any, ...]],
    slack_needed: int,
) -> SQL:
    """Return the statement that moves the chains to new ends, with its values."""
    # Integers as text, because the driver would prepare a statement for each of their sizes.
    owner_id = draft.scope.owner_id
    shown: list[tuple[str | None, ...]] = [
        (grant_id, stream, str(records)) for grant_id, stream, records in draft.shown
    ] or [(None, None, "0")]
    grants = 0 if draft.is_owners else len(ends)
    connection_ids = () if draft.is_owners else draft.connection_ids
    pseudonyms = text_array(reference.pseudonym.hex for reference in references.values())
    not_erased = SQL("")
    if unnamed:
        not_erased = SQL("AND NOT EXISTS (") + find_erased(unnamed) + SQL(")")
    values = (
        *chain.from_iterable(ends), *chain.from_iterable(shown),
        owner_id, str(len(ends)), owner_id, str(grants),
        owner_id, text_array(connection_ids), str(len(connection_ids)),
        owner_id, pseudonyms, text_array(draft.connection_ids), str(len(references)),
        owner_id, draft.scope.token_id, owner_id, str(slack_needed),
        *not_erased.values, owner_id, owner_id,
    )  # fmt: skip
    move = MOVE_CHAINS.format(
        entries=_placeholders(HEAD_TYPES, ends),
        shown=_placeholders(SHOWN_TYPES, shown),
        not_erased=not_erased.text,
    )
    return SQL(move, values)


def _placeholders(types: Mapping[str, str], rows: Sequence[object]) -> str:
    row = "(" + ", ".join(f"%s::{kind}" for kind in types.values()) + ")"
    return ", ".join([row] * len(rows))


def _row(entry: LedgerEntry) -> tuple[Any, ...]:
    return (
        entry.chain, str(entry.seq), entry.at, entry.client_id, entry.token_id, entry.request_id,
        entry.route, entry.covered, str(entry.record_count), str(entry.size_bytes),
        text_array(pseudonym.hex for pseudonym in entry.pseudonyms),
        text_array(f"\\x{digest.hex()}" for digest in entry.record_digests),
    )  # fmt: skip


def _remember(
    heads: Iterable[ChainHead], references: Mapping[RecordKey, RecordReference], owner_id: str
) -> None:
    for known in (_heads, _references):
        if len(known) > MAX_KNOWN:
            known.clear()
    _heads.update({head.chain: head for head in heads})
    _references.update({(owner_id, key): each for key, each in references.items()})


def _initial_slack() -> int:
    """Return the slack of a stream that has not been counted yet, in records."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED_SLACK


def _discloses(items: Iterable[DisclosedItem]) -> bool:
    """Return whether a record or a value was shown, and not only the names of streams."""
    return any(item.record_key is not None or item.fields for item in items)
