"""Build ledger entries from what an answer discloses, with their seals and digests.

A seal is keyed: a person who can write to the database cannot make one. A digest chains the signed
entries. Both cover the stored bytes, each part preceded by its length, so that no two entries give the
same bytes. This module runs no query.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import orjson

from evidence.access.crypto import keys_for
from evidence.access.scope import Scope

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A row of the ledger without its seal and number. `covered` is JSON text."""

    owner_id: str
    entry_id: UUID
    chain: str
    at: datetime
    client_id: str
    token_id: str
    request_id: str
    route: str
    covered: str
    record_count: int
    counted: int | None
    size_bytes: int
    record_digests: tuple[bytes, ...]

    def seal(self) -> bytes:
        """Return the HMAC-SHA256 of every column under the installation's current key."""
        return hmac.digest(keys_for("ledger")[0], b"".join(self._parts()), hashlib.sha256)

    def is_sealed(self, seal: bytes) -> bool:
        """Return whether this installation made the seal, with its current key or a previous one."""
        content = b"".join(self._parts())
        valid = (hmac.digest(key, content, hashlib.sha256) for key in keys_for("ledger"))
        return any(hmac.compare_digest(seal, each) for each in valid)

    def digest(self, previous: bytes, seq: int, seal: bytes) -> bytes:
        """Return the SHA-256 of the digest of the entry before, the number, every column and the seal."""
        digest = hashlib.sha256()
        for part in (_part(previous), _part(str(seq).encode()), *self._parts(), _part(seal)):
            digest.update(part)
        return digest.digest()

    def _parts(self) -> Iterable[bytes]:
        # PostgreSQL stores microseconds.
        microseconds = round(self.at.timestamp() * 1_000_000)
        columns = (
            self.owner_id, self.entry_id, self.chain, microseconds, self.client_id, self.token_id, self.request_id,
            self.route, self.covered, self.record_count,
            "" if self.counted is None else self.counted, self.size_bytes,
        )  # fmt: skip
        yield from (_part(str(column).encode()) for column in columns)
        yield _part(RECORD_DIGESTS)
        yield from map(_part, self.record_digests)


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
) -> list[LedgerEntry]:
    """Return one entry per chain; the bytes of the answer are divided by the number of items."""
    sizes = divide_bytes(answer.size_bytes, [len(items) for items in chains.values()])
    entries = []
    for (chain, items), size in zip(chains.items(), sizes, strict=True):
        # In the order of the digests, which are random, so that it reveals nothing about the records.
        named = sorted(digests[key] for key in record_keys(items))
        entries.append(
            LedgerEntry(
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
                record_digests=tuple(named),
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
