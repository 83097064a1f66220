"""Every row belongs to one owner, and every key begins with the owner (deploy/citus/README.md).

The rules are checked in the database itself, which the SQL of migrations has made.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from django.db import connection

from evidence.write.record_erasure import connection_tables
from tests.owners import owned_tables

pytestmark = pytest.mark.django_db

NOBODYS = {
    "evidence_owner": "the directory of owners",
    "owner_attempts": "of strangers who guess, by address",
    "owner_passkey": "of the user who signs in with it",
    "owner_setuplink": "opened by who is not signed in yet, by its hash",
    "oauth_registration": "of programs that register before anybody has granted them anything",
    "oauth_pendingrequest": "of nobody until an owner decides it",
}
"""Tables whose rows belong to no owner."""

UNIQUE = """
SELECT c.relname, i.indisprimary, ARRAY(
    SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number ORDER BY k.place
)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE i.indisunique AND NOT c.relispartition AND c.relname ~ '^(evidence|people|importers|backup|notifications|oauth|owner)_'
    AND c.relnamespace = 'public'::regnamespace
"""
REFERENCES = """
SELECT f.conrelid::regclass::text, f.confrelid::regclass::text, ARRAY(
    SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.number ORDER BY k.place
)
FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid
WHERE f.contype = 'f' AND c.relname ~ '^(evidence|people|importers|backup|notifications|oauth|owner)_'
"""
NUMBERED = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = 'public' AND table_name ~ '^(evidence|people|importers|backup|notifications|oauth|owner)_'
    AND (is_identity = 'YES' OR column_default LIKE 'nextval%')
"""
COLUMNS = """
SELECT c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
    AND c.relname ~ '^(evidence|people|importers|backup|notifications|oauth|owner)_' AND c.relnamespace = 'public'::regnamespace GROUP BY 1
"""


class Key(NamedTuple):
    table: str
    is_primary: bool
    columns: list[str]


class Reference(NamedTuple):
    table: str
    target: str
    columns: list[str]

    def stays_within_an_owner(self) -> bool:
        is_owned = self.table not in NOBODYS and self.target not in NOBODYS
        return self.columns[0] == "owner_id" if is_owned else self.target in SHARED


SHARED = {*NOBODYS, "auth_user"}


def asked(question: str) -> Iterator[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(question)
        yield from cursor.fetchall()


def keys() -> list[Key]:
    return [Key(*row) for row in asked(UNIQUE)]


def test_every_table_belongs_to_owners() -> None:
    columns = {str(table): set(names) for table, names in asked(COLUMNS)}
    owned = {table for table, names in columns.items() if "owner_id" in names} - NOBODYS.keys()

    assert columns.keys() - owned == NOBODYS.keys()
    assert owned == owned_tables() - {"evidence_passage"}


def test_keys_begin_with_the_owner() -> None:
    owned = [key for key in keys() if key.table not in NOBODYS]

    assert {key.table for key in owned if key.is_primary} == owned_tables() - {"evidence_passage"}
    assert [key for key in owned if key.columns[0] != "owner_id"] == []


def test_references_stay_within_an_owner() -> None:
    """A row of one owner refers to another row by both columns, or to a table of nobody's."""
    found = [Reference(*row) for row in asked(REFERENCES)]

    assert [each for each in found if not each.stays_within_an_owner()] == []
    assert {each.table for each in found} & LARGE == set()


def test_large_tables_use_no_sequence() -> None:
    assert {str(table) for (table,) in asked(NUMBERED)} & LARGE == set()


LARGE = {
    "evidence_record", "evidence_recordchange", "evidence_searchtext", "evidence_blob",
    "evidence_blobchunk", "evidence_suppression", "evidence_disclosedrecord", "evidence_disclosure",
    "people_mention", "people_personcount",
}  # fmt: skip
"""Tables with a row or more for each record or answer."""


def test_erasing_a_connection_empties_every_table_that_names_it() -> None:
    """An app whose table is missing here forgot to register it (evidence.write.app_data)."""
    columns = {str(table): set(names) for table, names in asked(COLUMNS)}
    named = {table for table, names in columns.items() if "connection_id" in names}

    assert named - connection_tables().keys() == KEPT_OR_DELETED_OTHERWISE


KEPT_OR_DELETED_OTHERWISE = {
    "evidence_connection",  # last of all
    "evidence_embeddedstream",  # with the vectors
    "evidence_erasure",  # the receipt
}
