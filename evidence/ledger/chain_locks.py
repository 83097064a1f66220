"""Lock the chains of a response, and assign pseudonyms to records that were never shown."""

from collections.abc import Mapping

from evidence.access.pseudonyms import fetch_pseudonyms
from evidence.access.sql import SQL, fetch_all_generic_plan, text_array
from evidence.ledger.entries import GENESIS, AnswerDraft, ChainHead, RecordKey, RecordReference
from evidence.models.erasures import SHARE_ERASURE_LOCK

LOCK_CHAINS = f"""
-- Lock the chains of a response, and assign pseudonyms to its records that have none.
-- A row is a pseudonym (connection, stream, key, pseudonym, nonce, was known) or a chain head.
-- Parameters: connection ids, streams, keys, owner id three times, digest before the first entry, chains.
WITH shown AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
),
known AS MATERIALIZED (
    SELECT p.* FROM shown s JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
    WHERE p.owner_id = %s
),
unnamed AS MATERIALIZED (
    SELECT * FROM shown WHERE (connection_id, stream, record_key) NOT IN
        (SELECT connection_id, stream, record_key FROM known)
),
shared AS MATERIALIZED (
    {SHARE_ERASURE_LOCK} FROM (SELECT DISTINCT connection_id FROM unnamed ORDER BY 1) AS c
),
new AS (
    INSERT INTO evidence_pseudonym (owner_id, connection_id, stream, record_key, pseudonym)
    SELECT %s, connection_id, stream, record_key, gen_random_uuid() FROM unnamed
    WHERE (SELECT count(*) FROM shared) > 0
    ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING
    RETURNING connection_id, stream, record_key, pseudonym, nonce
),
held AS (
    INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
    SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c) ORDER BY c
    ON CONFLICT (owner_id, chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
)
SELECT connection_id, stream, record_key, pseudonym, nonce, true, NULL::bigint, NULL::bytea FROM known
UNION ALL SELECT connection_id, stream, record_key, pseudonym, nonce, false, NULL, NULL FROM new
UNION ALL SELECT chain, NULL, NULL, NULL, NULL, NULL, seq, digest FROM held
"""  # noqa: S608 - of constants


def lock_chains(
    draft: AnswerDraft,
) -> tuple[list[ChainHead], Mapping[RecordKey, RecordReference], list[RecordKey]]:
    """Return the chain heads, references to the records, and the records that had none before."""
    keys = draft.all_keys
    references: dict[RecordKey, RecordReference] = {}
    known: set[RecordKey] = set()
    heads: list[ChainHead] = []
    columns = (text_array(key[column] for key in keys) for column in range(3))
    owner_id = draft.scope.owner_id
    heads_of = (owner_id, GENESIS, text_array(draft.chains))
    values = (*columns, owner_id, owner_id, *heads_of)
    rows = fetch_all_generic_plan(SQL(LOCK_CHAINS, values))
    for first, stream, key, pseudonym, nonce, was_known, seq, digest in rows:
        if pseudonym is None:
            heads.append(ChainHead(first, seq, bytes(digest)))
            continue
        record_key = (first, stream, key)
        references[record_key] = RecordReference.from_nonce(record_key, pseudonym, nonce)
        if was_known:
            known.add(record_key)
    if len(references) < len(keys):
        found = fetch_pseudonyms(keys)  # of a concurrent transaction
        references |= {row[:3]: RecordReference.from_nonce(row[:3], *row[3:]) for row in found}
    return heads, references, [key for key in keys if key not in known]
