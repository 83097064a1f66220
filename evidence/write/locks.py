"""Lock connections for writing, and number their changes.

Every writer of personal rows locks its connections first, in id order, and shares their sources so
that no declaration changes. Readers never wait for writers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from evidence.errors import ConnectionNotFound
from evidence.models.owners import current_owner

LOCK_CONNECTIONS = """
SELECT c.connection_id, c.change_seq, c.status, c.languages, s.current_declaration_id, c.replaces
FROM evidence_connection c JOIN evidence_source s ON s.owner_id = c.owner_id AND s.id = c.source_id
WHERE c.owner_id = %s AND c.connection_id = ANY(%s)
ORDER BY c.connection_id
FOR KEY SHARE OF s FOR UPDATE OF c
"""
HAS_SUPPRESSIONS = """
(SELECT connection_id FROM evidence_suppression WHERE owner_id = %s AND connection_id = %s LIMIT 1)
"""


@dataclass(slots=True)
class LockedConnection:
    """A connection that is locked until the transaction ends."""

    connection_id: str
    change_seq: int
    status: str
    languages: list[str]
    declaration_id: int | None
    replaces: bool
    suppresses: bool = False

    def next_seq(self) -> int:
        self.change_seq += 1
        return self.change_seq


def lock_connections(connection_ids: Iterable[str]) -> dict[str, LockedConnection]:
    """Lock the connections that exist, inside a transaction. Two queries."""
    owner_id = current_owner()
    with connection.cursor() as cursor:
        cursor.execute(LOCK_CONNECTIONS, [owner_id, sorted(set(connection_ids))])
        locked = {row[0]: LockedConnection(*row) for row in cursor.fetchall()}
        if locked:
            pairs = [value for connection_id in locked for value in (owner_id, connection_id)]
            cursor.execute("UNION ALL".join([HAS_SUPPRESSIONS] * len(locked)), pairs)
            for (connection_id,) in cursor.fetchall():
                locked[connection_id].suppresses = True
        return locked


def lock_connection(connection_id: str) -> LockedConnection:
    """Lock one connection. Raises ``ConnectionNotFound``."""
    locked = lock_connections([connection_id]).get(connection_id)
    if locked is None:
        raise ConnectionNotFound(message="No connection has this id.", param="connection_id")
    return locked


def save_change_numbers(locked: Iterable[LockedConnection]) -> None:
    """Save the latest change numbers; a draft connection becomes active."""
    locks = list(locked)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE evidence_connection c
            SET change_seq = n.seq,
                status = CASE c.status WHEN 'draft' THEN 'active' ELSE c.status END
            FROM unnest(%s::text[], %s::bigint[]) AS n(connection_id, seq)
            WHERE c.owner_id = %s AND c.connection_id = n.connection_id
            """,
            [
                [connection_lock.connection_id for connection_lock in locks],
                [connection_lock.change_seq for connection_lock in locks],
                current_owner(),
            ],
        )
