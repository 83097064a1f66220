"""The tables of personal rows, hash-partitioned by connection, and the frozen grant.

Django cannot write PARTITION BY, so the statements stand here and the state beside them.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.search
import django.db.models.manager
from django.db import migrations, models

PARTITIONS = 8

TABLES = """
CREATE TABLE evidence_record (
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL
        CONSTRAINT record_key_bounded CHECK (octet_length(record_key) BETWEEN 1 AND 200),
    data jsonb NOT NULL
        CONSTRAINT record_data_is_an_object CHECK (jsonb_typeof(data) = 'object'),
    sort_key text COLLATE "C",
    consent_time timestamptz,
    emitted_at timestamptz NOT NULL,
    field_emitted jsonb,
    numbers numeric[],
    times timestamptz[],
    words text[],
    change_seq bigint NOT NULL,
    PRIMARY KEY (connection_id, stream, record_key)
) PARTITION BY HASH (connection_id);
CREATE INDEX record_in_order
    ON evidence_record (connection_id, stream, sort_key, record_key);
CREATE INDEX record_in_time
    ON evidence_record (connection_id, stream, consent_time);

CREATE TABLE evidence_recordchange (
    connection_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    kind text NOT NULL CONSTRAINT change_kind_known CHECK (kind IN ('c', 'u', 'd')),
    before jsonb,
    consent_time_before timestamptz,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (connection_id, seq)
) PARTITION BY HASH (connection_id);
CREATE INDEX change_of_record
    ON evidence_recordchange (connection_id, stream, record_key, seq);

CREATE TABLE evidence_searchtext (
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    terms tsvector NOT NULL,
    authored_at timestamptz,
    analyser smallint NOT NULL,
    PRIMARY KEY (connection_id, stream, record_key)
) PARTITION BY HASH (connection_id);
CREATE INDEX search_text_in_time
    ON evidence_searchtext (connection_id, stream, authored_at, record_key);
CREATE INDEX search_text_terms
    ON evidence_searchtext USING gin (terms)
    WITH (fastupdate = on, gin_pending_list_limit = 65536);
-- Without a long list of frequent lexemes the planner takes a rare word for a common one and
-- walks the time index instead of the inverted one.
ALTER TABLE evidence_searchtext ALTER COLUMN terms SET STATISTICS 1000;

-- Blobs are compressed already more often than not, and are read in ranges.
ALTER TABLE evidence_blobchunk ALTER COLUMN content SET STORAGE EXTERNAL;
"""

PARTITION = """
CREATE TABLE {table}_p{number} PARTITION OF {table}
    FOR VALUES WITH (MODULUS {modulus}, REMAINDER {number});
"""

FROZEN_GRANT = """
CREATE FUNCTION evidence_grant_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'revoked_at' - 'superseded_by_id')
       IS DISTINCT FROM (to_jsonb(OLD) - 'revoked_at' - 'superseded_by_id')
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
       OR (OLD.superseded_by_id IS NOT NULL
           AND NEW.superseded_by_id IS DISTINCT FROM OLD.superseded_by_id) THEN
        RAISE EXCEPTION 'a grant cannot change once it is issued'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'grant_is_frozen';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER grant_is_frozen BEFORE UPDATE ON evidence_grant
    FOR EACH ROW EXECUTE FUNCTION evidence_grant_is_frozen();
CREATE TRIGGER declaration_is_frozen BEFORE UPDATE ON evidence_sourcedeclaration
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION evidence_declaration_is_frozen();
"""

FROZEN_DECLARATION = """
CREATE FUNCTION evidence_declaration_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a declaration snapshot cannot change'
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = 'declaration_is_frozen';
END $$;
"""


def partitions() -> str:
    return "".join(
        PARTITION.format(table=table, number=number, modulus=PARTITIONS)
        for table in ("evidence_record", "evidence_recordchange", "evidence_searchtext")
        for number in range(PARTITIONS)
    )


REVERSE = """
DROP TABLE evidence_record, evidence_recordchange, evidence_searchtext;
DROP TRIGGER grant_is_frozen ON evidence_grant;
DROP TRIGGER declaration_is_frozen ON evidence_sourcedeclaration;
DROP FUNCTION evidence_grant_is_frozen, evidence_declaration_is_frozen;
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    TABLES + partitions() + FROZEN_DECLARATION + FROZEN_GRANT, REVERSE
                )
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Record",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "connection_id",
                                "stream",
                                "record_key",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("connection_id", models.TextField(db_collation="C")),
                        ("stream", models.TextField(db_collation="C")),
                        ("record_key", models.TextField(db_collation="C")),
                        ("data", models.JSONField()),
                        ("sort_key", models.TextField(db_collation="C", null=True)),
                        ("consent_time", models.DateTimeField(null=True)),
                        ("emitted_at", models.DateTimeField()),
                        ("field_emitted", models.JSONField(null=True)),
                        (
                            "numbers",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.DecimalField(decimal_places=20, max_digits=60),
                                null=True,
                                size=None,
                            ),
                        ),
                        (
                            "times",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.DateTimeField(), null=True, size=None
                            ),
                        ),
                        (
                            "words",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), null=True, size=None
                            ),
                        ),
                        ("change_seq", models.BigIntegerField()),
                    ],
                    options={
                        "default_manager_name": "unscoped",
                        "indexes": [
                            models.Index(
                                fields=["connection_id", "stream", "sort_key", "record_key"],
                                name="record_in_order",
                            ),
                            models.Index(
                                fields=["connection_id", "stream", "consent_time"],
                                name="record_in_time",
                            ),
                        ],
                    },
                    managers=[
                        ("unscoped", django.db.models.manager.Manager()),
                    ],
                ),
                migrations.CreateModel(
                    name="RecordChange",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "connection_id",
                                "seq",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("connection_id", models.TextField(db_collation="C")),
                        ("seq", models.BigIntegerField()),
                        ("stream", models.TextField(db_collation="C")),
                        ("record_key", models.TextField(db_collation="C")),
                        (
                            "kind",
                            models.TextField(
                                choices=[("c", "created"), ("u", "updated"), ("d", "deleted")]
                            ),
                        ),
                        ("before", models.JSONField(null=True)),
                        ("consent_time_before", models.DateTimeField(null=True)),
                        ("recorded_at", models.DateTimeField()),
                    ],
                    options={
                        "default_manager_name": "unscoped",
                        "indexes": [
                            models.Index(
                                fields=["connection_id", "stream", "record_key", "seq"],
                                name="change_of_record",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("kind__in", ["c", "u", "d"])),
                                name="change_kind_known",
                            )
                        ],
                    },
                    managers=[
                        ("unscoped", django.db.models.manager.Manager()),
                    ],
                ),
                migrations.CreateModel(
                    name="SearchText",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "connection_id",
                                "stream",
                                "record_key",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("connection_id", models.TextField(db_collation="C")),
                        ("stream", models.TextField(db_collation="C")),
                        ("record_key", models.TextField(db_collation="C")),
                        ("terms", django.contrib.postgres.search.SearchVectorField()),
                        ("authored_at", models.DateTimeField(null=True)),
                        ("analyser", models.SmallIntegerField()),
                    ],
                    options={
                        "default_manager_name": "unscoped",
                        "indexes": [
                            models.Index(
                                fields=["connection_id", "stream", "authored_at", "record_key"],
                                name="search_text_in_time",
                            )
                        ],
                    },
                    managers=[
                        ("unscoped", django.db.models.manager.Manager()),
                    ],
                ),
            ],
        ),
    ]
