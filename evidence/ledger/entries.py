"""The entries of the ledger, their hashes and the seals of chain ends. Pure: no row is read here.

A hash is made of the very bytes that are stored, each preceded by its length, so that no two
entries have the same bytes. A seal is keyed: whoever can write to the database can make hashes
that fit, but not a chain end that this installation would own up to.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from evidence.access.crypto import keys_for
from evidence.access.scope import Scope

GENESIS = bytes(32)
"""What the first entry of a chain follows."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A record, or as much of a stream as a number tells, that an answer let somebody see.

    ``record_key`` is None where no single record was shown (an aggregate, an empty list);
    ``fields`` are those that the answer spoke of.
    """

    connection_id: str
    stream: str
    record_key: str | None
    fields: frozenset[str]


class Head(NamedTuple):
    """The end of a chain."""

    chain: str
    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row, without its hashes; ``covered`` is JSON text."""

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

    def digest(self, previous: bytes) -> bytes:
        """SHA-256 over ``previous`` and everything above."""
        told = hashlib.sha256()
        for part in (previous, *self._parts()):
            told.update(b"%d:" % len(part))
            told.update(part)
        return told.digest()

    def _parts(self) -> Iterable[bytes]:
        yield self.chain.encode()
        yield str(self.seq).encode()
        # Microseconds, as the database keeps them.
        yield str(round(self.at.timestamp() * 1_000_000)).encode()
        yield self.client_id.encode()
        yield self.token_id.encode()
        yield self.request_id.encode()
        yield self.route.encode()
        yield self.covered.encode()
        yield str(self.record_count).encode()
        yield str(self.size_bytes).encode()
        yield from (each.bytes for each in self.pseudonyms)


def seal(head: Head) -> bytes:
    """The mark of this installation on the end of a chain."""
    return _seals(head)[0]


def is_sealed(head: Head, mark: bytes) -> bool:
    """Whether the mark is of this installation, with today's key or one that is still known."""
    return any(hmac.compare_digest(mark, each) for each in _seals(head))


def _seals(head: Head) -> list[bytes]:
    told = b"%d:%s%d:%s" % (len(head.chain), head.chain.encode(), head.seq, head.digest)
    return [hmac.digest(key, told, hashlib.sha256) for key in keys_for("ledger")]


def own_chain(owner_id: str) -> str:
    """The chain of what the owner reads."""
    return f"own:{owner_id}"


def by_chain(
    scope: Scope, shown: Sequence[Shown], *, asked_of: Sequence[str]
) -> dict[str, list[Shown]]:
    """What was shown, under the grant that showed it. Where nothing was, the answer still counts
    as one, for each grant that was asked; for the first where none was."""
    if scope.package_id is None:
        return {own_chain(scope.owner_id): list(shown)}
    grants = _grants(scope)
    found: dict[str, list[Shown]] = {}
    for each in shown:
        found.setdefault(grants[each.connection_id, each.stream], []).append(each)
    return found or {grant_id: [] for grant_id in asked_of or [str(scope.grants[0].grant_id)]}


def _grants(scope: Scope) -> dict[tuple[str, str], str]:
    """The grant behind each stream of each connection; of two the earlier, as at the gate."""
    return {
        (connection_id, terms.name): str(grant.grant_id)
        for grant in reversed(scope.grants)
        for terms in grant.streams
        for connection_id in terms.connection_ids
    }
