"""Verify that pseudonyms link to the records that the ledger rows disclosed.

A ledger row has a digest of each record. The row of a pseudonym has the record and the key of its
digests. If a pseudonym has no row, its record was erased, and its digests cannot be verified.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from evidence.access.sql import SQL, fetch_all
from evidence.ledger.entries import record_digest
from evidence.models.ledger import Disclosure
from evidence.models.owners import current_owner

BATCH_SIZE = 200

SELECT_LINKS = """
-- Read the records behind pseudonyms, and the nonces of their digests.
-- Parameters: owner id, pseudonyms. One query per BATCH_SIZE rows of the ledger.
SELECT pseudonym, nonce, connection_id, stream, record_key
FROM evidence_pseudonym WHERE owner_id = %s AND pseudonym = ANY(%s)
"""

# An answer and its new pseudonyms are committed together, so some row names each pseudonym.
COUNT_UNUSED = """
-- Count the pseudonyms that no row of the ledger names. Parameters: owner id. One query per verification.
SELECT count(*) FROM evidence_pseudonym AS p
WHERE p.owner_id = %s AND NOT EXISTS (
    SELECT FROM evidence_disclosure AS d
    WHERE d.owner_id = p.owner_id AND d.pseudonyms @> ARRAY[p.pseudonym]
)
"""


@dataclass(slots=True)
class LinkCheck:
    """Compare the records behind the pseudonyms of one chain with its digests, in batches."""

    _changed: int | None = None
    _rows: list[Disclosure] = field(default_factory=list)

    def add(self, row: Disclosure) -> None:
        """Add a row whose own digest is valid. Runs one query per BATCH_SIZE rows."""
        if row.record_digests and self._changed is None:
            self._rows.append(row)
        if len(self._rows) >= BATCH_SIZE:
            self._check()

    def first_changed(self) -> int | None:
        """Return the number of the first row with a pseudonym that links to another record."""
        self._check()
        return self._changed

    def _check(self) -> None:
        rows, self._rows = self._rows, []
        digests = _current_digests({pseudonym for row in rows for pseudonym in row.pseudonyms})
        changed = (row.seq for row in rows if _is_changed(row, digests))
        self._changed = self._changed or next(changed, None)


def count_unused_pseudonyms() -> int:
    """Return the number of pseudonyms that no row of the ledger names."""
    [(count,)] = fetch_all(SQL(COUNT_UNUSED, (current_owner(),)))
    return int(count)


def _current_digests(pseudonyms: set[UUID]) -> dict[UUID, set[bytes]]:
    """Return the digests of the records behind the pseudonyms, without erased records.

    A pseudonym has one digest, or more if somebody added records to it.
    """
    digests: dict[UUID, set[bytes]] = {}
    if pseudonyms:
        rows: Sequence[tuple[UUID, UUID, str, str, str]]
        rows = fetch_all(SQL(SELECT_LINKS, (current_owner(), list(pseudonyms))))
        for pseudonym, nonce, connection_id, stream, record_key in rows:
            digest = record_digest(nonce, (connection_id, stream, record_key))
            digests.setdefault(pseudonym, set()).add(digest)
    return digests


def _is_changed(row: Disclosure, current: dict[UUID, set[bytes]]) -> bool:
    digests = map(bytes, row.record_digests)
    pairs = zip(row.pseudonyms, digests, strict=True)
    return any(current.get(pseudonym, {digest}) != {digest} for pseudonym, digest in pairs)
