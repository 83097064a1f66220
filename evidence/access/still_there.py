"""Records that were read a moment ago: nobody erases them before they are written down.

Whoever names a record in the ledger first shares a lock that whoever erases holds, and sees in a
later statement, which sees what was done before it had the lock, whether the record is still there.
So an erasure either has been before, and the answer is not given, or comes after, and finds the name.
"""

from evidence.models.erasures import NAMING

SHARED = f"SELECT pg_advisory_xact_lock_shared({NAMING})"
"""To go before FROM, over some ``connection_id``."""

GONE = """
SELECT FROM unnest(%s::text[], %s::text[], %s::text[]) AS n(connection_id, stream, record_key)
WHERE (SELECT true FROM evidence_record r WHERE r.connection_id = n.connection_id
    AND r.stream = n.stream AND r.record_key = n.record_key) IS NULL
"""
