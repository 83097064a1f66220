"""The tables of evidence, in the order of docs/glossary.md: owner, sources, records, grants, ledger, events.

Records, changes and search text are hash-partitioned by connection. Django cannot write that, so their
tables are created by statements, and Django is told the state. Triggers freeze what is written once.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models
from django.db.models.functions import Lower

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}
KEY = {"blank": True, "editable": False, "primary_key": True, "serialize": False}

PARTITIONS = 8
PERSONAL_ROWS = """
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
    link_1 text COLLATE "C",
    link_2 text COLLATE "C",
    link_3 text COLLATE "C",
    change_seq bigint NOT NULL,
    PRIMARY KEY (connection_id, stream, record_key)
) PARTITION BY HASH (connection_id);
CREATE INDEX record_in_order ON evidence_record (connection_id, stream, sort_key, record_key);
CREATE INDEX record_in_time ON evidence_record (connection_id, stream, consent_time);
-- Foreign keys by which records of other streams reach a record, the newest of a parent first.
CREATE INDEX record_link_1 ON evidence_record (connection_id, stream, link_1, sort_key, record_key)
    WHERE link_1 IS NOT NULL;
CREATE INDEX record_link_2 ON evidence_record (connection_id, stream, link_2, sort_key, record_key)
    WHERE link_2 IS NOT NULL;
CREATE INDEX record_link_3 ON evidence_record (connection_id, stream, link_3, sort_key, record_key)
    WHERE link_3 IS NOT NULL;

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
CREATE INDEX change_of_record ON evidence_recordchange (connection_id, stream, record_key, seq);

CREATE TABLE evidence_searchtext (
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    terms tsvector NOT NULL,
    word_order bytea[],
    authored_at timestamptz,
    analyser smallint NOT NULL,
    PRIMARY KEY (connection_id, stream, record_key)
) PARTITION BY HASH (connection_id);
CREATE INDEX search_text_in_time ON evidence_searchtext (connection_id, stream, authored_at, record_key);
CREATE INDEX search_text_terms ON evidence_searchtext USING gin (terms)
    WITH (fastupdate = on, gin_pending_list_limit = 65536);
-- Without a long list of frequent lexemes the planner takes a rare word for a common one and walks the
-- time index instead of the inverted one.
ALTER TABLE evidence_searchtext ALTER COLUMN terms SET STATISTICS 1000;
"""
PERSONAL_ROWS += "".join(
    f"CREATE TABLE {table}_p{number} PARTITION OF {table}"
    f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});\n"
    for table in ("evidence_record", "evidence_recordchange", "evidence_searchtext")
    for number in range(PARTITIONS)
)
# Keep the terms of a mail in its row: fetching them from elsewhere costs more than comparing them.
PERSONAL_ROWS += "".join(
    f"ALTER TABLE evidence_searchtext_p{number} SET (toast_tuple_target = 8160);\n"
    for number in range(PARTITIONS)
)

FROZEN = """
CREATE FUNCTION evidence_declaration_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a declaration snapshot cannot change'
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = 'declaration_is_frozen';
END $$;
CREATE TRIGGER declaration_is_frozen BEFORE UPDATE ON evidence_sourcedeclaration
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION evidence_declaration_is_frozen();

-- A grant can be paused and resumed; it is revoked, superseded and opened for single use once.
CREATE FUNCTION evidence_grant_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'revoked_at' - 'superseded_by_id' - 'paused_at' - 'readable_until')
       IS DISTINCT FROM
       (to_jsonb(OLD) - 'revoked_at' - 'superseded_by_id' - 'paused_at' - 'readable_until')
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
       OR (OLD.readable_until IS NOT NULL
           AND NEW.readable_until IS DISTINCT FROM OLD.readable_until)
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

CREATE FUNCTION evidence_ledger_is_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is added to and never changed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER evidence_disclosure_added_only BEFORE UPDATE OR DELETE
    ON evidence_disclosure FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
CREATE TRIGGER evidence_checkpoint_added_only BEFORE UPDATE OR DELETE
    ON evidence_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
"""

# Wakes background jobs after a commit (operations.job_wakeups). One channel serves all jobs: a
# transaction that changes many rows sends one notification.
WAKE_JOBS = """
CREATE FUNCTION evidence_wake_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('pdpp_jobs', '');
    RETURN NULL;
END $$;
CREATE TRIGGER wake_jobs AFTER UPDATE OF country ON evidence_owner
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER UPDATE ON evidence_source
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE OR DELETE ON evidence_connection
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER UPDATE OF paused_at, revoked_at ON evidence_grant
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE ON evidence_subscription
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE ON evidence_event
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE ON evidence_erasure
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
"""


def row_id() -> models.BigAutoField:
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def refers(to: str, on_delete: Any, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


def belongs(to: str, on_delete: Any, **options: Any) -> models.OneToOneField:
    return models.OneToOneField(to=to, on_delete=on_delete, related_name="+", **options)


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Owner",
            fields=[
                ("owner_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("user", belongs(settings.AUTH_USER_MODEL, models.SET_NULL, blank=True, null=True)),
                ("display_name", models.TextField(default="Owner")),
                ("time_zone", models.TextField(db_default="UTC", default="UTC")),
                ("language", models.TextField(db_default="", default="")),
                ("country", models.TextField(db_default="", default="")),
                ("created_at", models.DateTimeField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", row_id()),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("kind", models.TextField(default="connector")),
                (
                    "source_id",
                    models.TextField(db_collation="C", help_text="Absolute URI of the source."),
                ),
                ("connector_key", models.TextField(db_collation="C")),
                ("display_name", models.TextField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "source_id"), name="source_once_per_owner"
                    ),
                    models.UniqueConstraint(
                        fields=("owner", "connector_key"), name="connector_key_once_per_owner"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["connector", "provider_native"])),
                        name="source_kind_known",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="SourceDeclaration",
            fields=[
                ("id", row_id()),
                ("source", refers("evidence.source", models.PROTECT)),
                ("revision", models.PositiveIntegerField()),
                ("version", models.TextField()),
                ("snapshot", models.TextField()),
                ("layout", models.JSONField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "revision"), name="declaration_revision_once_per_source"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.AddField(
            model_name="source",
            name="current_declaration",
            field=refers("evidence.sourcedeclaration", models.PROTECT, null=True),
        ),
        migrations.CreateModel(
            name="Connection",
            fields=[
                (
                    "connection_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("source", refers("evidence.source", models.PROTECT)),
                ("display_name", models.TextField(verbose_name="label")),
                (
                    "labelled_by_owner",
                    models.BooleanField(db_default=False, default=False, editable=False),
                ),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("draft", "Draft"),
                            ("active", "Active"),
                            ("paused", "Paused"),
                            ("revoked", "Revoked"),
                        ],
                        default="active",
                    ),
                ),
                (
                    "languages",
                    ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        help_text="Languages of its texts, for search: en, de, fr, …",
                    ),
                ),
                (
                    "identities",
                    ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        db_default=models.Value(
                            [], output_field=ArrayField(base_field=models.TextField())
                        ),
                        default=list,
                        help_text="How the source calls its owner: addresses, ids, names.",
                    ),
                ),
                (
                    "indexed_languages",
                    ArrayField(
                        base_field=models.TextField(),
                        db_default=models.Value(
                            [], output_field=ArrayField(base_field=models.TextField())
                        ),
                        default=list,
                        editable=False,
                    ),
                ),
                (
                    "indexed_analyser",
                    models.SmallIntegerField(db_default=0, default=0, editable=False),
                ),
                ("reindexing", models.JSONField(editable=False, null=True)),
                ("demo", models.BooleanField(default=False, editable=False)),
                ("change_seq", models.BigIntegerField(default=0, editable=False)),
                ("pruned_seq", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("changes_kept_since", models.DateTimeField(editable=False, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("connection_id__regex", "^[A-Za-z0-9_-]{1,64}$")),
                        name="connection_id_survives_the_id_grammar",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["draft", "active", "paused", "revoked"])
                        ),
                        name="connection_status_known",
                    ),
                    models.UniqueConstraint(
                        models.F("owner"),
                        Lower("display_name"),
                        name="connection_name_once_per_owner",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="StreamState",
            fields=[
                ("id", row_id()),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("stream", models.TextField(db_collation="C")),
                ("record_count", models.BigIntegerField(default=0)),
                ("latest_emitted_at", models.DateTimeField(null=True)),
                ("latest_declared_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("connection", "stream"), name="stream_state_once_per_connection"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("record_count__gte", 0)),
                        name="record_count_not_negative",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="CollectorState",
            fields=[
                ("id", row_id()),
                ("source", refers("evidence.source", models.CASCADE)),
                ("grant_id", models.TextField(db_collation="C", default="")),
                ("state", models.JSONField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "grant_id"),
                        name="collector_state_once_per_source_and_grant",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="EmbeddedStream",
            fields=[
                ("id", row_id()),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("stream", models.TextField(db_collation="C")),
                ("model", models.TextField()),
                ("fields", ArrayField(base_field=models.TextField())),
                ("seq", models.BigIntegerField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("connection", "stream"), name="embedded_stream_once_per_connection"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(PERSONAL_ROWS)],
            state_operations=[
                migrations.CreateModel(
                    name="Record",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "connection_id", "stream", "record_key", **KEY
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
                            ArrayField(
                                base_field=models.DecimalField(decimal_places=20, max_digits=60),
                                null=True,
                            ),
                        ),
                        ("times", ArrayField(base_field=models.DateTimeField(), null=True)),
                        ("words", ArrayField(base_field=models.TextField(), null=True)),
                        ("link_1", models.TextField(db_collation="C", null=True)),
                        ("link_2", models.TextField(db_collation="C", null=True)),
                        ("link_3", models.TextField(db_collation="C", null=True)),
                        ("change_seq", models.BigIntegerField()),
                    ],
                    options={
                        **OPTIONS,
                        "indexes": [
                            models.Index(
                                fields=["connection_id", "stream", "sort_key", "record_key"],
                                name="record_in_order",
                            ),
                            models.Index(
                                fields=["connection_id", "stream", "consent_time"],
                                name="record_in_time",
                            ),
                            models.Index(
                                condition=models.Q(("link_1__isnull", False)),
                                fields=[
                                    "connection_id",
                                    "stream",
                                    "link_1",
                                    "sort_key",
                                    "record_key",
                                ],
                                name="record_link_1",
                            ),
                            models.Index(
                                condition=models.Q(("link_2__isnull", False)),
                                fields=[
                                    "connection_id",
                                    "stream",
                                    "link_2",
                                    "sort_key",
                                    "record_key",
                                ],
                                name="record_link_2",
                            ),
                            models.Index(
                                condition=models.Q(("link_3__isnull", False)),
                                fields=[
                                    "connection_id",
                                    "stream",
                                    "link_3",
                                    "sort_key",
                                    "record_key",
                                ],
                                name="record_link_3",
                            ),
                        ],
                    },
                    managers=UNSCOPED,
                ),
                migrations.CreateModel(
                    name="RecordChange",
                    fields=[
                        ("pk", models.CompositePrimaryKey("connection_id", "seq", **KEY)),
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
                        **OPTIONS,
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
                    managers=UNSCOPED,
                ),
                migrations.CreateModel(
                    name="SearchText",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "connection_id", "stream", "record_key", **KEY
                            ),
                        ),
                        ("connection_id", models.TextField(db_collation="C")),
                        ("stream", models.TextField(db_collation="C")),
                        ("record_key", models.TextField(db_collation="C")),
                        ("terms", SearchVectorField()),
                        ("word_order", ArrayField(base_field=models.BinaryField(), null=True)),
                        ("authored_at", models.DateTimeField(null=True)),
                        ("analyser", models.SmallIntegerField()),
                    ],
                    options={
                        **OPTIONS,
                        "indexes": [
                            models.Index(
                                fields=["connection_id", "stream", "authored_at", "record_key"],
                                name="search_text_in_time",
                            )
                        ],
                    },
                    managers=UNSCOPED,
                ),
            ],
        ),
        migrations.CreateModel(
            name="Suppression",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "stream", "key_digest", **KEY)),
                ("connection_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("key_digest", models.BinaryField()),
                ("erased_at", models.DateTimeField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Blob",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "blob_id", **KEY)),
                ("connection_id", models.TextField(db_collation="C")),
                ("blob_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("record_key", models.TextField(db_collation="C")),
                ("media_type", models.TextField()),
                ("size_bytes", models.BigIntegerField()),
                ("sha256", models.BinaryField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(
                        fields=["connection_id", "stream", "record_key"], name="blob_of_record"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="BlobChunk",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "blob_id", "position", **KEY)),
                ("connection_id", models.TextField(db_collation="C")),
                ("blob_id", models.TextField(db_collation="C")),
                ("position", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Client",
            fields=[
                (
                    "client_id",
                    models.TextField(
                        db_collation="C", editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("display_name", models.TextField(verbose_name="name")),
                ("created_at", models.DateTimeField(editable=False)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("display_name", ""), _negated=True),
                        name="client_name_not_empty",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Package",
            fields=[
                (
                    "package_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("client", refers("evidence.client", models.PROTECT)),
                ("approval", models.TextField(db_collation="C", null=True, unique=True)),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                ("grant_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("package", refers("evidence.package", models.PROTECT)),
                ("source", refers("evidence.source", models.PROTECT)),
                ("declaration", refers("evidence.sourcedeclaration", models.PROTECT)),
                ("streams", models.JSONField()),
                ("purpose_code", models.TextField()),
                ("purpose_description", models.TextField(blank=True)),
                (
                    "access_mode",
                    models.TextField(
                        choices=[("continuous", "Continuous"), ("single_use", "Single use")],
                        default="continuous",
                    ),
                ),
                ("retention", models.JSONField(null=True)),
                ("issued_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("readable_until", models.DateTimeField(null=True)),
                ("paused_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("superseded_by", belongs("evidence.grant", models.PROTECT, null=True)),
                ("extends", refers("evidence.grant", models.PROTECT, null=True)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__isnull", True),
                            ("expires_at__gt", models.F("issued_at")),
                            _connector="OR",
                        ),
                        name="grant_ends_after_issue",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("access_mode__in", ["continuous", "single_use"])),
                        name="grant_access_mode_known",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="AccessToken",
            fields=[
                ("token_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("digest", models.BinaryField(unique=True)),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("owner", "Owner"),
                            ("client", "Client"),
                            ("mcp_package", "Package"),
                        ]
                    ),
                ),
                ("resource", models.TextField()),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("package", refers("evidence.package", models.PROTECT, null=True)),
                ("approval", models.TextField(db_collation="C", null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "owner"), ("package__isnull", True)),
                            models.Q(
                                ("kind__in", ["client", "mcp_package"]), ("package__isnull", False)
                            ),
                            _connector="OR",
                        ),
                        name="owner_tokens_alone_have_no_package",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "owner"), _negated=True),
                            ("resource", "/v1"),
                            _connector="OR",
                        ),
                        name="owner_tokens_stay_at_rest",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("resource__in", ["/v1", "/mcp", "/mcp/events"])),
                        name="token_resource_known",
                    ),
                    models.UniqueConstraint(
                        fields=("approval", "resource"),
                        name="approval_makes_one_token_per_resource",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="PermissionRequest",
            fields=[
                (
                    "request_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("digest", models.BinaryField(unique=True)),
                ("grant", refers("evidence.grant", models.CASCADE)),
                ("stream", models.TextField()),
                ("fields", ArrayField(base_field=models.TextField(), null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("answered_at", models.DateTimeField(null=True)),
                (
                    "answer",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("once", "Allowed once"),
                            ("hour", "Allowed for an hour"),
                            ("always", "Allowed"),
                            ("declined", "Declined"),
                        ],
                    ),
                ),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("answer", ""), ("answered_at__isnull", True)),
                            models.Q(
                                ("answer__in", ["once", "hour", "always", "declined"]),
                                ("answered_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="permission_request_answered_with_an_answer",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Bookmark",
            fields=[
                ("handle", models.BinaryField(primary_key=True, serialize=False)),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("content", models.BinaryField()),
                ("used_at", models.DateTimeField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                ("id", row_id()),
                ("grant", refers("evidence.grant", models.CASCADE)),
                (
                    "measure",
                    models.TextField(
                        choices=[("calls", "Calls"), ("records", "Records"), ("bytes", "Bytes")]
                    ),
                ),
                (
                    "period",
                    models.TextField(
                        choices=[("minute", "minute"), ("hour", "hour"), ("day", "day")]
                    ),
                ),
                ("most", models.BigIntegerField()),
                ("used", models.BigIntegerField(default=0)),
                ("since", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("grant", "measure", "period"),
                        name="quota_once_a_measure_and_period",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("measure__in", ["calls", "records", "bytes"])),
                        name="quota_measure_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("period__in", ["minute", "hour", "day"])),
                        name="quota_period_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("most__gte", 1), ("used__gte", 0)),
                        name="quota_allows_something",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Tripwire",
            fields=[
                (
                    "grant",
                    belongs("evidence.grant", models.CASCADE, primary_key=True, serialize=False),
                ),
                ("share", models.SmallIntegerField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("share__gte", 0), ("share__lte", 100)),
                        name="tripwire_share_is_percent",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Watch",
            fields=[
                ("id", row_id()),
                ("grant", refers("evidence.grant", models.CASCADE)),
                ("stream", models.TextField()),
                ("slack", models.BigIntegerField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("grant", "stream"), name="watch_once_a_grant_and_stream"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", row_id()),
                ("grant", refers("evidence.grant", models.CASCADE)),
                ("stream", models.TextField()),
                ("seen", models.BigIntegerField()),
                ("total", models.BigIntegerField()),
                ("hours", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("acknowledged_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(
                        condition=models.Q(("acknowledged_at__isnull", True)),
                        fields=["at"],
                        name="alert_standing",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="RefusedCall",
            fields=[
                ("id", row_id()),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("at", models.DateTimeField()),
                ("client_id", models.TextField()),
                ("token_id", models.TextField()),
                ("request_id", models.TextField()),
                ("route", models.TextField()),
                ("code", models.TextField()),
                ("param", models.TextField()),
                ("stream", models.TextField()),
                ("clause", models.TextField()),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(fields=["client_id", "at"], name="refused_to_client"),
                    models.Index(fields=["at"], name="refused_at"),
                    models.Index(fields=["request_id"], name="refused_request"),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Chain",
            fields=[
                ("chain", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("seq", models.BigIntegerField(default=0)),
                ("digest", models.BinaryField()),
                ("seal", models.BinaryField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Disclosure",
            fields=[
                ("pk", models.CompositePrimaryKey("chain", "seq", **KEY)),
                ("chain", models.TextField(db_collation="C")),
                ("seq", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("client_id", models.TextField()),
                ("token_id", models.TextField()),
                ("request_id", models.TextField()),
                ("route", models.TextField()),
                ("covered", models.TextField()),
                ("record_count", models.IntegerField()),
                ("size_bytes", models.BigIntegerField()),
                ("pseudonyms", ArrayField(base_field=models.UUIDField())),
                ("record_digests", ArrayField(base_field=models.BinaryField())),
                ("previous", models.BinaryField()),
                ("digest", models.BinaryField()),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(fields=["at"], name="disclosure_at"),
                    models.Index(fields=["client_id", "at"], name="disclosure_to_client"),
                    GinIndex(fields=["pseudonyms"], name="disclosure_of_record"),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Pseudonym",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "stream", "record_key", **KEY)),
                ("connection_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("record_key", models.TextField(db_collation="C")),
                ("pseudonym", models.UUIDField()),
                (
                    "nonce",
                    models.UUIDField(db_default=RandomUUID()),
                ),
            ],
            options={
                **OPTIONS,
                "indexes": [models.Index(fields=["pseudonym"], name="pseudonym_of")],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", row_id()),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("at", models.DateTimeField()),
                ("heads", models.TextField()),
                ("note", models.TextField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "subscription_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("package", refers("evidence.package", models.CASCADE)),
                ("callback_url", models.TextField()),
                ("streams", ArrayField(base_field=models.TextField(), default=list)),
                ("secret", models.BinaryField()),
                ("old_secret", models.BinaryField(null=True)),
                ("old_secret_until", models.DateTimeField(null=True)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending_verification", "Waiting for the receiver to prove itself"),
                            ("active", "Active"),
                            ("disabled", "Switched off by the client"),
                            ("disabled_failure", "Switched off because deliveries failed"),
                            ("disabled_revoked", "Ended with the grant"),
                        ],
                        default="pending_verification",
                    ),
                ),
                ("disabled_reason", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "pending_verification",
                                    "active",
                                    "disabled",
                                    "disabled_failure",
                                    "disabled_revoked",
                                ],
                            )
                        ),
                        name="subscription_status_known",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="WatchedStream",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey("subscription_id", "connection_id", "stream", **KEY),
                ),
                ("subscription", refers("evidence.subscription", models.CASCADE)),
                ("stream", models.TextField(db_collation="C")),
                ("connection_id", models.TextField(db_collation="C")),
                ("standing", models.JSONField()),
                ("seen_seq", models.BigIntegerField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("event_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("subscription", refers("evidence.subscription", models.CASCADE)),
                (
                    "type",
                    models.TextField(
                        choices=[
                            ("pdpp.subscription.verify", "Verification"),
                            ("pdpp.subscription.test", "Test"),
                            ("pdpp.records.changed", "Records changed"),
                            ("pdpp.grant.revoked", "Grant revoked"),
                        ]
                    ),
                ),
                ("stream", models.TextField(db_collation="C", default="")),
                ("connection_id", models.TextField(db_collation="C", default="")),
                ("place", models.JSONField(null=True)),
                ("challenge", models.TextField(default="")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("queued", "On its way"),
                            ("delivered", "Delivered"),
                            ("failed", "Given up"),
                            ("dropped", "Not sent"),
                        ],
                        default="queued",
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("answered", models.PositiveSmallIntegerField(null=True)),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("enqueued", models.BooleanField(default=False)),
                ("settled_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(
                        condition=models.Q(("enqueued", False), ("status", "queued")),
                        fields=["due_at"],
                        name="events_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status", "queued"), ("type", "pdpp.records.changed")),
                        fields=("subscription", "stream", "connection_id"),
                        name="changes_of_a_stream_are_told_one_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["queued", "delivered", "failed", "dropped"])
                        ),
                        name="event_status_known",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Retention",
            fields=[
                ("id", row_id()),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("stream", models.TextField(blank=True, db_collation="C", default="")),
                ("days", models.PositiveIntegerField()),
                ("set_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("connection", "stream"), name="retention_once_per_stream"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("days__gte", 1)), name="retention_of_days"
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "erasure_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("owner", refers("evidence.owner", models.PROTECT)),
                (
                    "of",
                    models.TextField(
                        choices=[
                            ("record", "Record"),
                            ("stream", "Stream"),
                            ("connection", "Connection"),
                            ("owner", "Everything"),
                        ]
                    ),
                ),
                ("by", models.TextField()),
                ("connection_id", models.TextField(blank=True, db_collation="C")),
                ("stream", models.TextField(blank=True, db_collation="C")),
                ("record_digest", models.BinaryField(null=True)),
                ("before", models.DateTimeField(null=True)),
                ("tombstones", models.BooleanField(default=True)),
                ("removed", models.JSONField(default=dict)),
                ("kept", models.JSONField(default=dict)),
                ("wanted_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("of__in", ["record", "stream", "connection", "owner"])),
                        name="erasure_of_something_known",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.RunSQL(FROZEN),
        migrations.RunSQL(WAKE_JOBS),
    ]
