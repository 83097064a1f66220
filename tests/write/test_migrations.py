"""Migrations do not block or rewrite large tables unexpectedly.

A server migrates before it serves, so a lock keeps nobody waiting but other servers of the same
database that still run; a statement that reads or writes every record keeps them all waiting long.
"""

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

pytestmark = pytest.mark.django_db

LARGE = (
    "record", "recordchange", "searchtext", "passage", "blob", "blobchunk", "suppression",
    "disclosedrecord", "disclosure",
)  # fmt: skip
TABLE = rf'"?(?:public"?\.)?"?evidence_(?:{"|".join(LARGE)})(?:_p\d)?"?(?![a-z_])'
SLOW = re.compile(
    rf"""CREATE\ (?:UNIQUE\ )?INDEX\ (?!CONCURRENTLY).*?\ ON\ (?!ONLY){TABLE}
    | ALTER\ TABLE\ {TABLE}\ .*?(?:\ TYPE\ |SET\ NOT\ NULL|ADD\ CONSTRAINT(?!.*NOT\ VALID)|ADD\ PRIMARY)
    | ALTER\ TABLE\ {TABLE}\ ADD\ COLUMN\ .*DEFAULT\ \(?gen_random_uuid
    | UPDATE\ {TABLE} | DELETE\ FROM\ {TABLE} | VACUUM\ FULL | CLUSTER""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
REVIEWED = {"0001_initial": "makes the tables"}
"""Why what they do to large tables may be done at once. The next one that does needs its reason here:
an index concurrently (on ONLY the table, then each partition, then attached), a value in batches."""


def statements() -> Iterator[tuple[str, str]]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(
        [key for key in executor.loader.graph.leaf_nodes() if key[0] == "evidence"],
        clean_start=True,
    )
    state = None
    for migration, _ in plan:
        if state is None:
            state = executor.loader.project_state(
                [(migration.app_label, migration.name)], at_end=False
            )
        with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor:
            state = migration.apply(state, editor, collect_sql=True)
        if migration.app_label == "evidence":
            for statement in editor.collected_sql:
                yield migration.name, statement


def test_migrations_rewrite_large_tables_only_if_listed() -> None:
    slow = {name for name, statement in statements() if SLOW.search(statement)}

    assert slow == REVIEWED.keys()


@pytest.mark.parametrize(
    ("statement", "is_slow"),
    [
        ("CREATE INDEX x ON evidence_record (sort_key)", True),
        ('CREATE INDEX "x" ON "evidence_disclosedrecord" ("digest")', True),
        ("CREATE INDEX CONCURRENTLY x ON evidence_record_p3 (sort_key)", False),
        ("CREATE INDEX x ON ONLY evidence_record (sort_key)", False),
        ('ALTER TABLE "evidence_record" ALTER COLUMN "data" TYPE text', True),
        ("ALTER TABLE evidence_record ADD COLUMN link_9 text", False),
        (
            'ALTER TABLE "evidence_disclosedrecord" ADD COLUMN "n" uuid DEFAULT (GEN_RANDOM_UUID())',
            True,
        ),
        ("UPDATE evidence_record SET words = NULL", True),
        ("UPDATE evidence_connection SET demo = true", False),
        ('ALTER TABLE "evidence_disclosure" ADD CONSTRAINT x CHECK (a > 0) NOT VALID', False),
    ],
)
def test_operations_over_all_rows_are_detected(statement: str, *, is_slow: bool) -> None:
    assert bool(SLOW.search(statement)) is is_slow
