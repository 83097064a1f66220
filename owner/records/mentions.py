"""Write the mentions of people and their counts, and delete them with their records.

Every function runs in a transaction that locks the connection. ``people_index`` derives the mentions
of new and changed records.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django.db import connection
from typing_extensions import override

from evidence.models.digests import person_digest
from evidence.models.owners import current_owner
from evidence.write.app_data import AppData
from evidence.write.rows import RecordId
from owner.records.models import PeopleProgress

DELETE_MENTIONS = """
-- Delete the mentions in some records of a stream, and return their identities.
DELETE FROM people_mention
WHERE owner_id = %s AND connection_id = %s AND stream = %s AND record_key = ANY(%s)
RETURNING identity
"""
INSERT_MENTIONS = """
INSERT INTO people_mention (owner_id, connection_id, stream, record_key, identity, name, at)
SELECT %s, %s, %s, m.* FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[]) AS m
"""
FIND_MENTIONS = """
-- Look up the first, last and named mention of some identities in a stream.
-- Names are looked up in the latest 200 mentions, so that the cost does not grow with them.
SELECT n.identity, named.name, first.at, last.at
FROM unnest(%(identities)s::text[]) AS n(identity)
LEFT JOIN LATERAL (
    SELECT m.at FROM people_mention AS m
    WHERE m.owner_id = %(owner_id)s AND m.connection_id = %(connection_id)s AND m.stream = %(stream)s
        AND m.identity = n.identity AND m.at IS NOT NULL
    ORDER BY m.at LIMIT 1
) AS first ON TRUE
LEFT JOIN LATERAL (
    SELECT m.at FROM people_mention AS m
    WHERE m.owner_id = %(owner_id)s AND m.connection_id = %(connection_id)s AND m.stream = %(stream)s
        AND m.identity = n.identity AND m.at IS NOT NULL
    ORDER BY m.at DESC LIMIT 1
) AS last ON TRUE
LEFT JOIN LATERAL (
    SELECT latest.name FROM (
        SELECT m.name FROM people_mention AS m
        WHERE m.owner_id = %(owner_id)s AND m.connection_id = %(connection_id)s AND m.stream = %(stream)s
            AND m.identity = n.identity
        ORDER BY m.at DESC LIMIT 200
    ) AS latest WHERE latest.name IS NOT NULL LIMIT 1
) AS named ON TRUE
ORDER BY n.identity
"""
ADD_COUNTS = """
-- Add to the counts of some identities in a stream, with their first, last and named mention.
INSERT INTO people_personcount AS c
    (owner_id, connection_id, stream, identity, own_person, person, name, records, first_at, last_at)
SELECT %(owner_id)s, %(connection_id)s, %(stream)s, n.identity, n.own_person, coalesce(known.person, n.own_person),
    n.name, n.added, n.first_at, n.last_at
FROM unnest(%(identities)s::text[], %(people)s::text[], %(added)s::bigint[], %(names)s::text[],
    %(first)s::timestamptz[], %(last)s::timestamptz[])
    AS n(identity, own_person, added, name, first_at, last_at)
LEFT JOIN LATERAL (
    SELECT p.person FROM people_personcount AS p
    WHERE p.owner_id = %(owner_id)s AND p.identity = n.identity LIMIT 1
) AS known ON TRUE
ON CONFLICT (owner_id, connection_id, stream, identity) DO UPDATE
SET records = c.records + excluded.records, name = excluded.name,
    first_at = excluded.first_at, last_at = excluded.last_at
"""
DELETE_EMPTY_COUNTS = """
DELETE FROM people_personcount
WHERE owner_id = %s AND connection_id = %s AND stream = %s AND identity = ANY(%s) AND records <= 0
"""
SEPARATE = """
-- Undo joins of identities in deleted records, because a deleted card may be what joined them.
UPDATE people_personcount SET person = own_person
WHERE owner_id = %s AND identity = ANY(%s) AND person <> own_person
"""
JOIN = """
-- Set the people of joined identities, and undo all other joins.
UPDATE people_personcount AS c SET person = n.person
FROM (
    SELECT p.ctid, coalesce(j.person, p.own_person) AS person
    FROM people_personcount AS p
    LEFT JOIN unnest(%s::text[], %s::text[]) AS j(own_person, person)
        ON j.own_person = p.own_person
    WHERE p.owner_id = %s
) AS n
WHERE c.owner_id = %s AND c.ctid = n.ctid AND c.person <> n.person
"""
DELETE_UNUSED_MERGES = """
-- Delete what the owner merged and no record contains any more, once all records have been read.
DELETE FROM people_personmerge AS g
WHERE g.owner_id = %s AND NOT EXISTS (
        SELECT FROM people_personcount AS c
        WHERE c.owner_id = g.owner_id AND c.identity = g.identity
    )
    AND NOT EXISTS (
        SELECT FROM evidence_connection AS c
        LEFT JOIN people_peopleprogress AS p
            ON p.owner_id = c.owner_id AND p.connection_id = c.connection_id
        WHERE c.owner_id = g.owner_id AND c.status <> 'revoked' AND p.is_complete IS NOT TRUE
    )
"""


@dataclass(frozen=True, slots=True)
class FoundMention:
    """An identity in a record; see ``owner.records.models.Mention``."""

    record_key: str
    identity: str
    name: str | None
    at: datetime | None


def replace_mentions(
    connection_id: str, stream: str, keys: Collection[str], found: Sequence[FoundMention]
) -> Collection[str]:
    """Replace the mentions in the records of these keys, and return the previous identities."""
    with connection.cursor() as cursor:
        cursor.execute(DELETE_MENTIONS, [current_owner(), connection_id, stream, list(keys)])
        deleted = Counter(identity for (identity,) in cursor)
        if found:
            columns = zip(*((m.record_key, m.identity, m.name, m.at) for m in found), strict=True)
            cursor.execute(
                INSERT_MENTIONS, [current_owner(), connection_id, stream, *map(list, columns)]
            )
    added = Counter(mention.identity for mention in found)
    added.subtract(deleted)
    if added:
        _add_counts(connection_id, stream, added)
    return deleted.keys()


def delete_mentions(refs: Iterable[RecordId]) -> None:
    """Delete the mentions in records that are deleted, and what these records joined."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for ref in refs:
        groups[ref.connection_id, ref.stream].append(ref.record_key)
    for (connection_id, stream), keys in groups.items():
        if identities := replace_mentions(connection_id, stream, keys, ()):
            with connection.cursor() as cursor:
                cursor.execute(SEPARATE, [current_owner(), list(identities)])
            delete_unused_merges()


def join_identities(people: Mapping[str, str]) -> None:
    """Set the person of each joined identity: ``own_person`` -> ``person``; undo all other joins."""
    with connection.cursor() as cursor:
        owner_id = current_owner()
        cursor.execute(JOIN, [list(people), list(people.values()), owner_id, owner_id])


def delete_other_streams(connection_id: str, streams: Collection[str]) -> None:
    """Delete the mentions in streams of a connection that are not among these."""
    with connection.cursor() as cursor:
        for table in ("people_mention", "people_personcount"):
            cursor.execute(
                f"DELETE FROM {table}"  # noqa: S608 - constants
                " WHERE owner_id = %s AND connection_id = %s AND stream <> ALL(%s)",
                [current_owner(), connection_id, list(streams)],
            )


def delete_unused_merges() -> None:
    """Delete merges of identities that occur in no record."""
    with connection.cursor() as cursor:
        cursor.execute(DELETE_UNUSED_MERGES, [current_owner()])


def rebuild_people(connection_ids: Collection[str]) -> None:
    """Let the mentions of these connections be derived again."""
    PeopleProgress.unscoped.filter(connection_id__in=connection_ids).delete()


def _add_counts(connection_id: str, stream: str, added: Mapping[str, int]) -> None:
    stream_of: dict[str, Any] = {
        "owner_id": current_owner(), "connection_id": connection_id, "stream": stream,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(FIND_MENTIONS, {**stream_of, "identities": sorted(added)})
        identities, names, first, last = map(list, zip(*cursor.fetchall(), strict=True))
        counts = {
            **stream_of,
            "identities": identities,
            "people": [person_digest(identity) for identity in identities],
            "added": [added[identity] for identity in identities],
            "names": names,
            "first": first,
            "last": last,
        }
        cursor.execute(ADD_COUNTS, counts)
        values: tuple[Any, ...] = (current_owner(), connection_id, stream, identities)
        cursor.execute(DELETE_EMPTY_COUNTS, values)


class PeopleData(AppData):
    """People who occur in records."""

    connection_tables: ClassVar = {
        "people_mention": "mentions of people",
        "people_personcount": "counts of people",
        "people_peopleprogress": "counters of people",
    }
    record_tables = ("people_mention",)

    @override
    def delete_records(self, refs: Collection[RecordId]) -> None:
        delete_mentions(refs)

    @override
    def connection_deleted(self) -> None:
        delete_unused_merges()

    @override
    def rebuild(self, connection_ids: Collection[str]) -> None:
        rebuild_people(connection_ids)
