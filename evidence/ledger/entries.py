"""Build ledger entries from what a response discloses, their hashes and the seals of chain heads.

A hash covers the stored bytes, each part preceded by its length, so that no two entries hash the same
bytes. A seal is keyed: a person who can write to the database can compute valid hashes, but not a
valid seal. This module runs no query.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import orjson

from evidence.access.crypto import keys_for
from evidence.access.scope import Scope

RECORD_DIGESTS = b"record digests"
"""Separates pseudonyms from record digests in the hash, so that one cannot replace the other."""

RecordKey = tuple[str, str, str]
"""connection_id, stream and record_key."""

GENESIS = bytes(32)
"""The digest before the first entry of a chain."""


@dataclass(frozen=True, slots=True)
class DisclosedItem:
    """A record, or a summary of a stream, that a response disclosed.

    `record_key` is None when no single record was shown (an aggregate, an empty list).
    `fields` are the fields that the response discloses.
    """

    connection_id: str
    stream: str
    record_key: str | None
    fields: frozenset[str]


class ChainHead(NamedTuple):
    """The last entry of a chain."""

    chain: str
    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A row of the ledger without its hashes. `covered` is JSON text."""

    chain: str
    seq: int
    at: datetime
    client_id: str
    token_id: str
    request_id: str
    route: str
    covered: str
    record_count: int
    size_bytes: int
    pseudonyms: tuple[UUID, ...]
    record_digests: tuple[bytes, ...]

    def digest(self, previous: bytes) -> bytes:
        """Return the SHA-256 of `previous` and every field."""
        digest = hashlib.sha256()
        for part in (previous, *self._parts()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.digest()

    def _parts(self) -> Iterable[bytes]:
        yield self.chain.encode()
        yield str(self.seq).encode()
        # PostgreSQL stores microseconds.
        yield str(round(self.at.timestamp() * 1_000_000)).encode()
        yield self.client_id.encode()
        yield self.token_id.encode()
        yield self.request_id.encode()
        yield self.route.encode()
        yield self.covered.encode()
        yield str(self.record_count).encode()
        yield str(self.size_bytes).encode()
        yield from (pseudonym.bytes for pseudonym in self.pseudonyms)
        yield RECORD_DIGESTS
        yield from self.record_digests


class RecordReference(NamedTuple):
    """A pseudonym and a keyed digest, by which an entry names a record.

    References sort by their random pseudonyms, so the order reveals nothing about the records.
    """

    pseudonym: UUID
    digest: bytes

    @classmethod
    def from_nonce(cls, key: RecordKey, pseudonym: UUID, nonce: UUID) -> "RecordReference":
        """Return the reference to a record, with the digest under its nonce."""
        return cls(pseudonym, record_digest(nonce, key))


def record_digest(nonce: UUID, key: RecordKey) -> bytes:
    """Return the HMAC-SHA256 of a record key under the nonce of its pseudonym.

    The nonce is random and is deleted with the record. After that nobody can test a guess, even
    with the server's own keys. The digest uses no installation key, so that rows still verify
    after a key rotation.
    """
    message = b"".join(b"%d:%s" % (len(part), part) for part in map(str.encode, key))
    return hmac.digest(nonce.bytes, message, "sha256")


def seal(head: ChainHead) -> bytes:
    """Return the keyed hash that marks a chain head as written by this installation."""
    return _seals(head)[0]


def is_sealed(head: ChainHead, mark: bytes) -> bool:
    """Return whether `mark` is a seal of the head, with the current key or a previous one."""
    return any(hmac.compare_digest(mark, valid) for valid in _seals(head))


def _seals(head: ChainHead) -> list[bytes]:
    message = b"%d:%s%d:%s" % (len(head.chain), head.chain.encode(), head.seq, head.digest)
    return [hmac.digest(key, message, hashlib.sha256) for key in keys_for("ledger")]


def owner_chain(owner_id: str) -> str:
    """Return the name of the chain of the owner's own reads."""
    return f"own:{owner_id}"


def group_by_chain(
    scope: Scope, items: Sequence[DisclosedItem], *, charged_grants: Sequence[str]
) -> dict[str, list[DisclosedItem]]:
    """Return the items by the chain of the grant that showed them.

    A response without items gets an empty entry for each of `charged_grants`, or for the first
    grant of the scope.
    """
    if scope.package_id is None:
        return {owner_chain(scope.owner_id): list(items)}
    grants = _grant_ids(scope)
    chains: dict[str, list[DisclosedItem]] = {}
    for item in items:
        chains.setdefault(grants[item.connection_id, item.stream], []).append(item)
    return chains or {
        grant_id: [] for grant_id in charged_grants or [str(scope.grants[0].grant_id)]
    }


def _grant_ids(scope: Scope) -> dict[tuple[str, str], str]:
    """Return the grant id for each (connection id, stream); the first grant wins, as at the gate."""
    return {
        (connection_id, terms.name): str(grant.grant_id)
        for grant in reversed(scope.grants)
        for terms in grant.streams
        for connection_id in terms.connection_ids
    }


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
    rows = (
        [
            *stream,
            sorted(frozenset().union(*names)),
            *([len(keys[stream])] if stream in keys else []),
        ]
        for stream, names in sorted(fields.items())
    )
    return orjson.dumps([*rows]).decode()


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


class AnswerDraft:
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


def _keys(items: Iterable[DisclosedItem]) -> set[RecordKey]:
    return {
        (item.connection_id, item.stream, item.record_key)
        for item in items
        if item.record_key is not None
    }
