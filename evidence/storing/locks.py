"""Who may write to a connection: one transaction at a time.

Every writer of personal rows holds the rows of its connections first, in the order of their ids,
and with them the right to number changes; and a share of their sources, so that no declaration
changes meanwhile. So nothing here races, and no reader ever waits for a writer; for whoever
erases, only one that shows a record for the first time does, until the batch has gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from evidence.errors import ConnectionNotFound
from evidence.models.erasures import NAMING

HOLD = """
SELECT c.connection_id, c.change_seq, c.status, c.languages, s.current_declaration_id,
    EXISTS (SELECT FROM evidence_suppression x WHERE x.connection_id = c.connection_id)
FROM evidence_connection c JOIN evidence_source s ON s.id = c.source_id
WHERE c.connection_id = ANY(%s)
ORDER BY c.connection_id
FOR KEY SHARE OF s FOR UPDATE OF c
"""
ERASING = f"""
SELECT pg_advisory_xact_lock({NAMING}) FROM unnest(ARRAY[%s]) AS n(connection_id)
"""  # noqa: S608 - a constant


@dataclass(slots=True)
class Held:
    """A connection whose row is locked until the transaction ends."""

    connection_id: str
    change_seq: int
    status: str
    languages: list[str]
    declaration_id: int | None
    suppresses: bool

    def next_seq(self) -> int:
        self.change_seq += 1
        return self.change_seq


def hold(connection_ids: Iterable[str]) -> dict[str, Held]:
    """Locks the connections that exist; inside a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(HOLD, [sorted(set(connection_ids))])
        return {row[0]: Held(*row) for row in cursor.fetchall()}


def hold_one(connection_id: str) -> Held:
    """Locks one connection; raises ``ConnectionNotFound``."""
    held = hold([connection_id]).get(connection_id)
    if held is None:
        raise ConnectionNotFound(param="connection_id")
    return held


def hold_to_erase(connection_id: str) -> Held:
    """Locks one connection and waits for answers that are being written down; raises
    ``ConnectionNotFound``."""
    held = hold_one(connection_id)
    with connection.cursor() as cursor:
        cursor.execute(ERASING, [connection_id])
    return held


def save_numbering(held: Iterable[Held]) -> None:
    """Keeps the numbers that were given out. A draft with a record is a draft no more."""
    numbered = list(held)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE evidence_connection c
            SET change_seq = n.seq,
                status = CASE c.status WHEN 'draft' THEN 'active' ELSE c.status END
            FROM unnest(%s::text[], %s::bigint[]) AS n(connection_id, seq)
            WHERE c.connection_id = n.connection_id
            """,
            [[each.connection_id for each in numbered], [each.change_seq for each in numbered]],
        )
