"""Checks that pseudonyms lead to the records that the rows of the ledger disclosed.

A row has a digest of each record, and the pseudonym's row has the record and the digest's key. A
pseudonym without a row belongs to an erased record, and nobody can tell any more which one it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from evidence.access.sql import Fragment, fetched
from evidence.ledger.entries import record_digest
from evidence.models.ledger import Disclosure

ROWS_AT_ONCE = 200

RECORDS_OF_PSEUDONYMS = """
-- Read the records behind pseudonyms, and the nonces of their digests.
-- Parameters: pseudonyms. One query for ROWS_AT_ONCE rows of the ledger.
SELECT pseudonym, nonce, connection_id, stream, record_key
FROM evidence_pseudonym WHERE pseudonym = ANY(%s)
"""

# An answer and its new pseudonyms are committed together, so each pseudonym is in some row.
UNUSED_PSEUDONYMS = """
-- Count the pseudonyms that no row of the ledger names. No parameters. One query a verification.
SELECT count(*) FROM evidence_pseudonym AS p
WHERE NOT EXISTS (SELECT FROM evidence_disclosure AS d WHERE d.pseudonyms @> ARRAY[p.pseudonym])
"""


@dataclass(slots=True)
class LinkCheck:
    """Compares the records behind the pseudonyms of one chain with its digests, batch by batch."""

    _changed: int | None = None
    _rows: list[Disclosure] = field(default_factory=list)

    def add(self, row: Disclosure) -> None:
        """Take a row whose own hash is right. Runs one query every ROWS_AT_ONCE rows."""
        if row.record_digests and self._changed is None:
            self._rows.append(row)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._check()

    def first_changed(self) -> int | None:
        """Return the number of the first row with a pseudonym that leads to another record."""
        self._check()
        return self._changed

    def _check(self) -> None:
        rows, self._rows = self._rows, []
        found = _digests({each for row in rows for each in row.pseudonyms})
        changed = (row.seq for row in rows if _is_changed(row, found))
        self._changed = self._changed or next(changed, None)


def unused_pseudonyms() -> int:
    """Count the pseudonyms that no row of the ledger names."""
    [(count,)] = fetched(Fragment(UNUSED_PSEUDONYMS))
    return int(count)


def _digests(pseudonyms: Iterable[UUID]) -> dict[UUID, set[bytes]]:
    """Return the digests of the records that still have these pseudonyms: one each, if none was added."""
    found: dict[UUID, set[bytes]] = {}
    if asked := list(pseudonyms):
        rows: Sequence[tuple[UUID, UUID, str, str, str]]
        rows = fetched(Fragment(RECORDS_OF_PSEUDONYMS, (asked,)))
        for pseudonym, nonce, connection_id, stream, record_key in rows:
            digest = record_digest(nonce, (connection_id, stream, record_key))
            found.setdefault(pseudonym, set()).add(digest)
    return found


def _is_changed(row: Disclosure, found: dict[UUID, set[bytes]]) -> bool:
    digests = map(bytes, row.record_digests or ())
    pairs = zip(row.pseudonyms, digests, strict=True)
    return any(found.get(pseudonym, {digest}) != {digest} for pseudonym, digest in pairs)
