"""Lock the chains of a response, and assign pseudonyms to records that were never shown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from evidence.access.pseudonyms import fetch_pseudonyms
from evidence.access.sql import SQL, fetch_together, text_array
from evidence.ledger.entries import GENESIS, AnswerDraft, ChainHead, RecordKey, RecordReference
from evidence.models.erasures import SHARE_ERASURE_LOCK

SHARE_LOCK = f"{SHARE_ERASURE_LOCK} FROM unnest(%s::text[]) AS n(connection_id)"
ASSIGN_PSEUDONYMS = """
-- Assign pseudonyms to records that have none, and return the keys of these records.
-- Parameters: connection ids, streams, keys, pseudonyms, nonces, owner id.
INSERT INTO evidence_pseudonym (owner_id, connection_id, stream, record_key, pseudonym, nonce)
SELECT c.owner_id, n.connection_id, n.stream, n.record_key, n.pseudonym, n.nonce
FROM unnest(%s::text[], %s::text[], %s::text[], %s::uuid[], %s::uuid[])
    AS n(connection_id, stream, record_key, pseudonym, nonce)
JOIN evidence_connection c ON c.connection_id = n.connection_id
WHERE c.owner_id = %s
ORDER BY 2, 3, 4 ON CONFLICT DO NOTHING
RETURNING connection_id, stream, record_key, pseudonym, nonce
"""
LOCK_CHAINS = """
-- Lock chains, which begin here if they are new, and return their heads. Parameters: rows.
INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
VALUES {rows}
ON CONFLICT (owner_id, chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
"""
CHAIN_PLACEHOLDERS = "(%s::text, %s::text, 0, %s::bytea, '')"
WATCH = """
-- Watch streams that were not shown through their grant before. Parameters: rows.
INSERT INTO evidence_watch (owner_id, grant_id, stream, slack) VALUES {rows}
ON CONFLICT (owner_id, grant_id, stream) DO NOTHING
"""
WATCH_PLACEHOLDERS = "(%s::text, %s::text, %s::text, %s::bigint)"


def lock_chains(
    draft: AnswerDraft, *, initial_slack: int
) -> tuple[list[ChainHead], Mapping[RecordKey, RecordReference], list[RecordKey]]:
    """Return the chain heads, references to the records, and the records that had none before."""
    owner_id = draft.scope.owner_id
    references = _references(fetch_pseudonyms(draft.all_keys)) if draft.all_keys else {}
    unnamed = [key for key in draft.all_keys if key not in references]
    if unnamed:
        columns = [text_array(key[column] for key in unnamed) for column in range(3)]
        new = [text_array(uuid4().hex for _ in unnamed) for _ in ("pseudonym", "nonce")]
        connection_ids = text_array(sorted({key[0] for key in unnamed}))
        _, assigned = fetch_together(
            SQL(SHARE_LOCK, (connection_ids,)), SQL(ASSIGN_PSEUDONYMS, (*columns, *new, owner_id))
        )
        if len(assigned) < len(unnamed):
            assigned = fetch_pseudonyms(unnamed)  # of a concurrent transaction, too
        references |= _references(assigned)
    heads = [(chain, owner_id, GENESIS) for chain in draft.chains]
    locks = [_insert(LOCK_CHAINS, CHAIN_PLACEHOLDERS, heads)]
    if draft.shown:
        streams = [
            (owner_id, chain, stream, str(initial_slack)) for chain, stream, _ in draft.shown
        ]
        locks.append(_insert(WATCH, WATCH_PLACEHOLDERS, streams))
    locked, *_ = fetch_together(*locks)
    return (
        [ChainHead(chain, seq, bytes(digest)) for chain, seq, digest in locked],
        references,
        unnamed,
    )


def _insert(statement: str, placeholders: str, rows: Sequence[tuple[object, ...]]) -> SQL:
    text = statement.format(rows=", ".join([placeholders] * len(rows)))
    return SQL(text, tuple(value for row in rows for value in row))


def _references(rows: Iterable[tuple[Any, ...]]) -> dict[RecordKey, RecordReference]:
    """Return references by record, of rows of connection id, stream, key, pseudonym and nonce."""
    return {row[:3]: RecordReference.from_nonce(row[:3], *row[3:]) for row in rows}
