"""Schema rules that allow distributing tables over machines and owners (deploy/citus/README.md).

They check the database itself, including SQL of migrations.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from django.apps import apps
from django.db import connection

from evidence.write.connection_erasure import connection_tables
from evidence.write.distribution import DISTRIBUTED_TABLES

pytestmark = pytest.mark.django_db

PERSONAL = frozenset(
    (
        "evidence_record", "evidence_recordchange", "evidence_searchtext", "evidence_blob",
        "evidence_blobchunk", "evidence_suppression", "evidence_pseudonym", "people_mention",
    )
)  # fmt: skip
"""Tables with a row or more for each record: these would be spread by connection_id."""
SPREAD_ALREADY = {"evidence_record", "evidence_recordchange", "evidence_searchtext"}

SMALL_NUMBERS = frozenset(
    (
        "backup_backupcopy", "evidence_alert", "evidence_checkpoint", "evidence_collectorstate",
        "evidence_embeddedstream", "evidence_quota", "evidence_refusedcall", "evidence_retention",
        "evidence_source", "evidence_sourcedeclaration", "evidence_streamstate", "evidence_watch",
        "importers_importchoice", "importers_importreceipt", "notifications_notification",
        "owner_passkey",
    )
)  # fmt: skip
"""Tables whose rows have a number from a sequence. They hang on a source, a connection, a grant or
an owner, and no number is ever shown but to the owner; a table that comes to be here must say why it has no key of its own."""

NOBODYS = {
    "owner_passkey": "of the user who signs in with it",
    "owner_attempts": "of strangers who guess, by address",
    "oauth_registration": "of programs that register before anybody has granted them anything",
    "evidence_disclosure": "by its chain, whose row has the owner",
}

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
SELECT f.conrelid::regclass::text, f.confrelid::regclass::text
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
PARTITIONED = """
SELECT c.relname, pg_get_partkeydef(c.oid), array_agg(pg_get_expr(p.relpartbound, p.oid) ORDER BY 1)
FROM pg_class c JOIN pg_inherits i ON i.inhparent = c.oid JOIN pg_class p ON p.oid = i.inhrelid
WHERE c.relkind = 'p' AND c.relname ~ '^(evidence|people|importers|backup|notifications|oauth|owner)_' GROUP BY c.oid, c.relname
"""


class Key(NamedTuple):
    table: str
    is_primary: bool
    columns: list[str]


def asked(question: str) -> Iterator[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(question)
        yield from cursor.fetchall()


def keys() -> list[Key]:
    return [Key(*row) for row in asked(UNIQUE)]


def test_keys_of_personal_tables_start_with_the_connection() -> None:
    personal = [key for key in keys() if key.table in PERSONAL]

    assert {key.table for key in personal if key.is_primary} == PERSONAL
    assert [key for key in personal if key.columns[0] != "connection_id"] == []


def test_personal_tables_have_no_foreign_keys() -> None:
    assert [pair for pair in asked(REFERENCES) if PERSONAL & {str(name) for name in pair}] == []


def test_personal_tables_use_no_sequence() -> None:
    numbered = {str(table) for (table,) in asked(NUMBERED)}

    assert numbered & PERSONAL == set()
    assert numbered == SMALL_NUMBERS


def test_natural_keys_contain_no_sequence_number() -> None:
    for key in keys():
        if "id" in key.columns:
            assert (key.is_primary, key.columns) == (True, ["id"]), key


def test_large_tables_are_partitioned_alike() -> None:
    found = {str(name): (how, parts) for name, how, parts in asked(PARTITIONED)}

    assert found.keys() >= SPREAD_ALREADY
    assert {how for how, _ in found.values()} == {"HASH (connection_id)"}
    [_] = {tuple(parts) for _, parts in found.values()}


def test_every_table_leads_to_an_owner() -> None:
    columns = {str(table): set(names) for table, names in asked(COLUMNS)}
    owned = {table for table, names in columns.items() if names & {"owner_id", "connection_id"}}
    references = list(asked(REFERENCES))
    while found := {str(a) for a, b in references if b in owned} - owned:
        owned |= found

    assert columns.keys() - owned == NOBODYS.keys()


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


def test_the_docs_give_the_place_of_every_table() -> None:
    text = Path("deploy/citus/README.md").read_text()
    rows = re.findall(r"^\| (`.+?`) \| (distributed|local) \| .+ \|$", text, re.MULTILINE)
    places = {name: place for names, place in rows for name in re.findall(r"`(\w+)`", names)}
    models = {
        model._meta.db_table.partition("_")[2]
        for app in ("evidence", "importers", "backup", "notifications", "people", "oauth", "owner")
        for model in apps.get_app_config(app).get_models()
    }
    distributed = {table for table, place in places.items() if place == "distributed"}

    assert places.keys() == models | {"passage"}
    assert set(DISTRIBUTED_TABLES) == PERSONAL | {"evidence_passage"}
    assert distributed == {table.partition("_")[2] for table in DISTRIBUTED_TABLES}
