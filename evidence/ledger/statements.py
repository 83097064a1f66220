"""The statements that write the ledger.

Citus cannot run those that read rows of its nodes and write rows of the coordinator at once, so on a
cluster the rows of the nodes are read and written by statements of their own, in the same order.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from django.conf import settings

from evidence.access.grant_states import COUNT_USABLE_GRANTS, FIND_ENDED_BEARER
from evidence.access.sql import (
    SQL,
    fetch_all_generic_plan,
    find_erased,
    find_pseudonyms,
    text_array,
)
from evidence.ledger.entries import RecordKey
from evidence.models.erasures import SHARE_ERASURE_LOCK

ENTRY_TYPES = {
    "chain": "text", "seq": "bigint", "at": "timestamptz", "client_id": "text", "token_id": "text",
    "request_id": "text", "route": "text", "covered": "text", "record_count": "int",
    "size_bytes": "bigint", "pseudonyms": "uuid[]", "record_digests": "bytea[]",
    "previous": "bytea", "digest": "bytea",
}  # fmt: skip
ENTRY_COLUMNS = ", ".join(ENTRY_TYPES)
ENTRY_PLACEHOLDERS = (
    "(" + ", ".join(f"%s::{kind}" for kind in ENTRY_TYPES.values()) + ", %s::bytea)"
)
SHOWN_PLACEHOLDERS = "(%s::text, %s::text, %s::bigint)"

# The commit waits for the disk, whatever synchronous_commit is: no response may lose its row, even in
# a power failure. FOR UPDATE reads the ends of the chains again after waiting for another response.
RECORD_ANSWER = f"""
-- Record one response if nothing has changed since it was read: its chains end where the caller says,
-- its token, grants and connections are usable, and its records have their pseudonyms. Otherwise write nothing.
-- Parameters: entries with their seals; grants, streams and records shown; number of chains; number of
-- grants; connection ids, their number; pseudonyms, connection ids, number of pseudonyms; token id; number
-- of streams that must be far from their tripwire, or 0; initial slack, initial slack. One query.
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)),
entry ({ENTRY_COLUMNS}, seal) AS (VALUES {{entries}}),
shown (grant_id, stream, records) AS (VALUES {{shown}}),
held AS MATERIALIZED (
    SELECT c.chain FROM evidence_chain AS c JOIN entry AS e ON e.chain = c.chain
    WHERE c.seq = e.seq - 1 AND c.digest = e.previous
    ORDER BY c.chain FOR UPDATE OF c
),
verdict AS MATERIALIZED (
    SELECT (SELECT count(*) FROM held) = %s
        AND ({COUNT_USABLE_GRANTS}) = %s
        AND (SELECT count(*) FROM evidence_connection AS n
            WHERE n.connection_id = ANY(%s::text[]) AND n.status <> 'revoked') = %s
        AND {{linked}} = %s
        AND NOT EXISTS ({FIND_ENDED_BEARER})
        AND (SELECT count(*) FROM shown AS s JOIN evidence_watch AS w
            ON w.grant_id = s.grant_id AND w.stream = s.stream WHERE w.slack > s.records) >= %s
        {{not_erased}} AS is_unchanged
    FROM durable
),
added AS (
    INSERT INTO evidence_disclosure ({ENTRY_COLUMNS})
    SELECT {ENTRY_COLUMNS} FROM entry, verdict WHERE is_unchanged
),
moved AS (
    UPDATE evidence_chain AS c SET seq = e.seq, digest = e.digest, seal = e.seal
    FROM entry AS e, verdict WHERE c.chain = e.chain AND is_unchanged
),
watched AS (
    INSERT INTO evidence_watch AS w (grant_id, stream, slack)
    SELECT s.grant_id, s.stream, %s - s.records FROM shown AS s, verdict
    WHERE s.grant_id IS NOT NULL AND is_unchanged
    ON CONFLICT (grant_id, stream) DO UPDATE SET slack = w.slack + excluded.slack - %s
    RETURNING w.grant_id, w.stream, w.slack
)
SELECT is_unchanged, NULL AS grant_id, NULL AS stream FROM verdict
UNION ALL SELECT true, grant_id, stream FROM watched WHERE slack <= 0
"""  # noqa: S608 - of constants
LINKED = """(SELECT count(DISTINCT p.pseudonym) FROM evidence_pseudonym AS p
            WHERE p.pseudonym = ANY(%s::uuid[]) AND p.connection_id = ANY(%s::text[]))"""

LOCK_CHAINS = f"""
-- Lock the chains of a response, and assign pseudonyms to its records that have none.
-- A row is a pseudonym (connection, stream, key, pseudonym, nonce, was known) or a chain head.
-- Parameters: connection ids, streams, keys, owner id, digest before the first entry, chains.
WITH shown AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) AS s(connection_id, stream, record_key)
),
known AS MATERIALIZED (
    SELECT p.* FROM shown s JOIN evidence_pseudonym p USING (connection_id, stream, record_key)
),
unnamed AS MATERIALIZED (
    SELECT * FROM shown WHERE (connection_id, stream, record_key) NOT IN
        (SELECT connection_id, stream, record_key FROM known)
),
shared AS MATERIALIZED (
    {SHARE_ERASURE_LOCK} FROM (SELECT DISTINCT connection_id FROM unnamed ORDER BY 1) AS c
),
new AS (
    INSERT INTO evidence_pseudonym (connection_id, stream, record_key, pseudonym)
    SELECT connection_id, stream, record_key, gen_random_uuid() FROM unnamed
    WHERE (SELECT count(*) FROM shared) > 0
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING
    RETURNING connection_id, stream, record_key, pseudonym, nonce
),
held AS (
    INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
    SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c) ORDER BY c
    ON CONFLICT (chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
)
SELECT connection_id, stream, record_key, pseudonym, nonce, true, NULL::bigint, NULL::bytea FROM known
UNION ALL SELECT connection_id, stream, record_key, pseudonym, nonce, false, NULL, NULL FROM new
UNION ALL SELECT chain, NULL, NULL, NULL, NULL, NULL, seq, digest FROM held
"""  # noqa: S608 - of constants

LOCK_HEADS = """
-- Lock the chains of a response. Parameters: owner id, digest before the first entry, chains.
INSERT INTO evidence_chain (chain, owner_id, seq, digest, seal)
SELECT c, %s, 0, %s, '' FROM unnest(%s::text[]) AS n(c) ORDER BY c
ON CONFLICT (chain) DO UPDATE SET seq = evidence_chain.seq RETURNING chain, seq, digest
"""
SHARE_LOCKS = f"{SHARE_ERASURE_LOCK} FROM unnest(%s::text[]) AS c(connection_id)"
INSERT_PSEUDONYMS = """
-- Parameters: connection id, streams, keys, pseudonyms, nonces.
INSERT INTO evidence_pseudonym (connection_id, stream, record_key, pseudonym, nonce)
SELECT %s, n.* FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::uuid[])
    AS n(stream, record_key, pseudonym, nonce)
ON CONFLICT DO NOTHING RETURNING 1
"""


def lock_chains(
    keys: Sequence[RecordKey], heads_of: tuple[str, bytes, str]
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of LOCK_CHAINS. On a cluster, a statement for each connection inserts names."""
    if not settings.PDPP_DISTRIBUTED:
        columns = (text_array(key[column] for key in keys) for column in range(3))
        return fetch_all_generic_plan(SQL(LOCK_CHAINS, (*columns, *heads_of)))
    stored = find_pseudonyms(keys)
    known = {row[:3] for row in fetch_all_generic_plan(stored)}
    unnamed: dict[str, list[RecordKey]] = {}
    for key in sorted(set(keys) - known):
        unnamed.setdefault(key[0], []).append(key)
    if unnamed:
        fetch_all_generic_plan(SQL(SHARE_LOCKS, (text_array(sorted(unnamed)),)))
    for connection_id, named in unnamed.items():
        streams, names = (text_array(key[column] for key in named) for column in (1, 2))
        uuids = ([uuid4() for _ in named] for _ in range(2))
        values = (connection_id, streams, names, *uuids)
        fetch_all_generic_plan(SQL(INSERT_PSEUDONYMS, values))
    rows = [(*row, row[:3] in known, None, None) for row in fetch_all_generic_plan(stored)]
    heads = fetch_all_generic_plan(SQL(LOCK_HEADS, heads_of))
    return rows + [(chain, *[None] * 5, seq, digest) for chain, seq, digest in heads]


def node_conditions(
    pseudonyms: str, connection_ids: str, unnamed: Sequence[RecordKey]
) -> tuple[SQL, SQL]:
    """Return the number of stored pseudonyms, and a condition that no unnamed record was erased."""
    linked = SQL(LINKED, (pseudonyms, connection_ids))
    erased = find_erased(unnamed) if unnamed else None
    if settings.PDPP_DISTRIBUTED:
        found = (
            fetch_all_generic_plan(SQL("SELECT ") + linked) if connection_ids != "{}" else [(0,)]
        )
        is_erased = erased is not None and bool(fetch_all_generic_plan(erased))
        return SQL("%s::bigint", found[0]), SQL("AND false" if is_erased else "")
    if erased is None:
        return linked, SQL("")
    return linked, SQL("AND NOT EXISTS (") + erased + SQL(")")
