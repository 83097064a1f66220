"""Write the ledger entries of a response before it is sent.

Usually one statement does: it compares the ends of the chains with those that this process wrote last,
checks the rights and the records of the response again, and adds the entries. If anything is not as
expected, a transaction locks the chains, assigns pseudonyms to records that were never shown, charges
quotas, and then runs the same statement. Records are locked before chains, each in order, so that
concurrent responses cannot deadlock.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError, transaction
from prometheus_client import Counter as Metric

from evidence.access.grant_lifecycle import use_once
from evidence.access.quotas import DisclosureCost, charge
from evidence.access.scope import Scope
from evidence.access.sql import (
    SQL,
    fetch_all_generic_plan,
    find_pseudonyms,
    text_array,
    time_limited,
)
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
from evidence.ledger.statements import (
    ENTRY_PLACEHOLDERS,
    RECORD_ANSWER,
    SHOWN_PLACEHOLDERS,
    lock_chains,
    node_conditions,
)
from evidence.ledger.tripwire import UNWATCHED_SLACK, check_tripwires

LEDGER_ROWS = Metric("pdpp_ledger_rows", "Ledger rows written")

R = TypeVar("R")
ATTEMPTS = 3
MAX_KNOWN = 10_000
CHAIN_LOCK_SECONDS = 1.0

_heads: dict[str, ChainHead] = {}
"""The ends of chains as this process wrote them last. The database decides whether they still are."""
_references: dict[RecordKey, RecordReference] = {}
"""References to records that were shown recently. The database decides whether they still exist."""
_chain_locks = [threading.Lock() for _ in range(64)]
"""Responses of one chain take turns, so that each knows the end that the one before it wrote."""


class ChangedDuringReadError(OperationalError):
    """A record was erased, or a right ended, between the read and its ledger entry."""


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
    draft = _Draft(scope, answer, now)
    if not _record_at_once(draft):
        with transaction.atomic():
            _record_in_transaction(draft)
    LEDGER_ROWS.inc(len(draft.chains))


class _Draft:
    """The entries of a response by chain, as far as they are known without the database."""

    def __init__(self, scope: Scope, answer: DisclosedAnswer, now: datetime) -> None:
        self.scope, self.answer, self.now = scope, answer, now
        items = group_by_chain(scope, answer.items, charged_grants=answer.charged_grants)
        self.chains = dict(sorted(items.items()))
        self.keys = {chain: _keys(items) for chain, items in self.chains.items()}
        counts = [len(items) for items in self.chains.values()]
        self.sizes = dict(zip(self.chains, divide_bytes(answer.size_bytes, counts), strict=True))
        self.is_owners = scope.package_id is None

    @cached_property
    def all_keys(self) -> list[RecordKey]:
        return sorted({key for keys in self.keys.values() for key in keys})

    @property
    def needs_transaction(self) -> bool:
        """Whether quotas or a single use are charged with the answer."""
        return any(
            (grant.limits or grant.single_use) and grant.grant_id in self.chains
            for grant in self.scope.grants
        )

    @cached_property
    def shown(self) -> list[tuple[str, str, int]]:
        """The number of records shown by grant and stream; empty for the owner's own reads."""
        if self.is_owners:
            return []
        counts: dict[tuple[str, str], int] = {}
        for chain, keys in self.keys.items():
            for _, stream, _ in keys:
                counts[chain, stream] = counts.get((chain, stream), 0) + 1
        return sorted((chain, stream, records) for (chain, stream), records in counts.items())

    @property
    def connection_ids(self) -> set[str]:
        return {item.connection_id for item in self.answer.items}

    def entry(
        self, head: ChainHead, references: Mapping[RecordKey, RecordReference]
    ) -> LedgerEntry:
        """Return the entry that follows the head of its chain."""
        named = [references[key] for key in self.keys[head.chain]]
        named.sort(key=lambda reference: reference.pseudonym.int)
        return LedgerEntry(
            chain=head.chain,
            seq=head.seq + 1,
            at=self.now,
            client_id=self.scope.client_id or "",
            token_id=self.scope.token_id,
            request_id=self.answer.request_id,
            route=self.answer.route,
            covered=covered_json(self.chains[head.chain]),
            record_count=len(named),
            size_bytes=self.sizes[head.chain],
            pseudonyms=tuple(reference.pseudonym for reference in named),
            record_digests=tuple(reference.digest for reference in named),
        )


def _record_at_once(draft: _Draft) -> bool:
    """Record with one statement. Returns False, and writes nothing, if a transaction must do it."""
    if draft.needs_transaction:
        return False
    references = {key: _references.get(key) for key in draft.all_keys}
    known = {key: reference for key, reference in references.items() if reference is not None}
    if len(known) < len(references):
        return False
    with _exclusive(draft.chains) as is_locked:
        heads = [_heads[chain] for chain in draft.chains if chain in _heads]
        if not is_locked or len(heads) < len(draft.chains):
            return False
        return _insert(draft, heads, known, slack_needed=len(draft.shown)) is not None


def _record_in_transaction(draft: _Draft) -> None:
    """Charge quotas, lock the chains, record, and count for tripwires and single use."""
    costs = {
        chain: DisclosureCost(len(keys), draft.sizes[chain]) for chain, keys in draft.keys.items()
    }
    charge(draft.scope, costs, now=draft.now)
    heads, references, unnamed = _lock_chains(draft)
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


def _lock_chains(
    draft: _Draft,
) -> tuple[list[ChainHead], Mapping[RecordKey, RecordReference], list[RecordKey]]:
    """Return the chain heads, references to the records, and the records that had none before."""
    keys = draft.all_keys
    references: dict[RecordKey, RecordReference] = {}
    known: set[RecordKey] = set()
    heads: list[ChainHead] = []
    heads_of = (draft.scope.owner_id, GENESIS, text_array(draft.chains))
    rows = lock_chains(keys, heads_of)
    for first, stream, key, pseudonym, nonce, was_known, seq, digest in rows:
        if pseudonym is None:
            heads.append(ChainHead(first, seq, bytes(digest)))
            continue
        record_key = (first, stream, key)
        references[record_key] = RecordReference.from_nonce(record_key, pseudonym, nonce)
        if was_known:
            known.add(record_key)
    if len(references) < len(keys):
        rows = fetch_all_generic_plan(find_pseudonyms(keys))  # of a concurrent transaction
        references |= {row[:3]: RecordReference.from_nonce(row[:3], *row[3:]) for row in rows}
    return heads, references, [key for key in keys if key not in known]


def _insert(
    draft: _Draft,
    heads: Sequence[ChainHead],
    references: Mapping[RecordKey, RecordReference],
    *,
    unnamed: Sequence[RecordKey] = (),
    slack_needed: int = 0,
) -> list[tuple[str, str]] | None:
    """Insert the entries and return the (grant, stream) pairs that the tripwire must count.

    Returns None, and has written nothing, if something has changed since it was read.
    """
    entries = [draft.entry(head, references) for head in heads]
    new_heads = [
        ChainHead(entry.chain, entry.seq, entry.digest(head.digest))
        for entry, head in zip(entries, heads, strict=True)
    ]
    rows = zip(map(_row, entries), heads, new_heads, strict=True)
    shown: Sequence[tuple[object, ...]] = draft.shown or [(None, None, 0)]
    grants = 0 if draft.is_owners else len(heads)
    connection_ids = () if draft.is_owners else draft.connection_ids
    pseudonyms = [reference.pseudonym.hex for reference in references.values()]
    linked, not_erased = node_conditions(
        text_array(pseudonyms), text_array(draft.connection_ids), unnamed
    )
    slack = _initial_slack()
    values: list[Any] = [
        *(value for row, old, new in rows for value in (*row, old.digest, new.digest, seal(new))),
        *(value for row in shown for value in row),
        len(heads), grants, text_array(connection_ids), len(connection_ids),
        *linked.values, len(pseudonyms), draft.scope.token_id, slack_needed,
        *not_erased.values, slack, slack,
    ]  # fmt: skip
    texts = linked.text, not_erased.text
    is_unchanged, used_up = _run(values, len(heads), len(shown), *texts)
    if not is_unchanged:
        return None
    _remember(new_heads, references)
    return used_up


def _run(
    values: Sequence[Any], entries: int, shown: int, linked: str, not_erased: str
) -> tuple[bool, list[tuple[str, str]]]:
    statement = RECORD_ANSWER.format(
        entries=", ".join([ENTRY_PLACEHOLDERS] * entries),
        shown=", ".join([SHOWN_PLACEHOLDERS] * shown),
        linked=linked,
        not_erased=not_erased,
    )
    # Integers as text, because the driver would prepare a statement for each of their sizes.
    texts = tuple(str(value) if isinstance(value, int) else value for value in values)
    (is_unchanged, *_), *used_up = fetch_all_generic_plan(SQL(statement, texts))
    return is_unchanged, [(grant_id, stream) for _, grant_id, stream in used_up]


def _row(entry: LedgerEntry) -> tuple[Any, ...]:
    return (
        entry.chain, entry.seq, entry.at, entry.client_id, entry.token_id, entry.request_id,
        entry.route, entry.covered, entry.record_count, entry.size_bytes,
        text_array(pseudonym.hex for pseudonym in entry.pseudonyms),
        text_array(f"\\x{digest.hex()}" for digest in entry.record_digests or ()),
    )  # fmt: skip


def _remember(heads: Iterable[ChainHead], references: Mapping[RecordKey, RecordReference]) -> None:
    for known in (_heads, _references):
        if len(known) > MAX_KNOWN:
            known.clear()
    _heads.update({head.chain: head for head in heads})
    _references.update(references)


def _initial_slack() -> int:
    """Return the slack of a stream that has not been counted yet, in records."""
    share: int = settings.PDPP_TRIPWIRE_SHARE
    records: int = settings.PDPP_TRIPWIRE_RECORDS
    return max(1, share * records // 100) if share else UNWATCHED_SLACK


def _keys(items: Iterable[DisclosedItem]) -> set[RecordKey]:
    return {
        (item.connection_id, item.stream, item.record_key)
        for item in items
        if item.record_key is not None
    }


def _discloses(items: Iterable[DisclosedItem]) -> bool:
    """Return whether a record or a value was shown, and not only the names of streams."""
    return any(item.record_key is not None or item.fields for item in items)
