"""The tables of evidence, in the order of docs/glossary.md: owner, sources, records, grants, ledger, events.

Search text is hash-partitioned by owner and connection, which keeps the inverted index that a search in one
connection reads small. Django cannot write that, nor the limits of records, so these tables are created
by statements, and Django is told the state. Triggers freeze what is written once.
"""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations
from django.db.models import (
    SET_NULL,
    BigIntegerField,
    BinaryField,
    BooleanField,
    CheckConstraint,
    DateTimeField,
    DecimalField,
    F,
    Index,
    IntegerField,
    JSONField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
    UUIDField,
    Value,
)
from django.db.models.functions import Lower

from evidence.migrations import (
    KEY,
    OwnerFirst,
    belongs,
    composite,
    owned,
    row_id,
    same,
    same_one,
    table,
    text_key,
)

PARTITIONS = 8
PERSONAL_ROWS = """
CREATE TABLE evidence_record (
    owner_id text COLLATE "C" NOT NULL,
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
    PRIMARY KEY (owner_id, connection_id, stream, record_key)
);
CREATE INDEX record_in_order ON evidence_record (owner_id, connection_id, stream, sort_key, record_key);
CREATE INDEX record_in_time ON evidence_record (owner_id, connection_id, stream, consent_time);
-- Foreign keys by which records of other streams reach a record, the newest of a parent first.
CREATE INDEX record_link_1 ON evidence_record (owner_id, connection_id, stream, link_1, sort_key, record_key)
    WHERE link_1 IS NOT NULL;
CREATE INDEX record_link_2 ON evidence_record (owner_id, connection_id, stream, link_2, sort_key, record_key)
    WHERE link_2 IS NOT NULL;
CREATE INDEX record_link_3 ON evidence_record (owner_id, connection_id, stream, link_3, sort_key, record_key)
    WHERE link_3 IS NOT NULL;

CREATE TABLE evidence_recordchange (
    owner_id text COLLATE "C" NOT NULL,
    connection_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    kind text NOT NULL CONSTRAINT change_kind_known CHECK (kind IN ('c', 'u', 'd')),
    changed text[],
    consent_time_before timestamptz,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (owner_id, connection_id, seq)
);
CREATE INDEX change_of_record ON evidence_recordchange (owner_id, connection_id, stream, record_key, seq);

CREATE TABLE evidence_searchtext (
    owner_id text COLLATE "C" NOT NULL,
    connection_id text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    record_key text COLLATE "C" NOT NULL,
    terms tsvector NOT NULL,
    word_order bytea[] NOT NULL,
    authored_at timestamptz,
    analyser smallint NOT NULL,
    PRIMARY KEY (owner_id, connection_id, stream, record_key)
) PARTITION BY HASH (owner_id, connection_id);
CREATE INDEX search_text_in_time ON evidence_searchtext (owner_id, connection_id, stream, authored_at, record_key);
CREATE INDEX search_text_terms ON evidence_searchtext USING gin (terms)
    WITH (fastupdate = on, gin_pending_list_limit = 65536);
-- Without a long list of frequent lexemes the planner takes a rare word for a common one and walks the
-- time index instead of the inverted one.
ALTER TABLE evidence_searchtext ALTER COLUMN terms SET STATISTICS 1000;
"""
# Keep the terms of a mail in its row: fetching them from elsewhere costs more than comparing them.
PERSONAL_ROWS += "".join(
    f"CREATE TABLE evidence_searchtext_p{number} PARTITION OF evidence_searchtext"
    f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});\n"
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
CREATE TRIGGER evidence_disclosure_added_only BEFORE DELETE
    ON evidence_disclosure FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
-- An entry gets its number and its digest once.
CREATE TRIGGER evidence_disclosure_numbered_once BEFORE UPDATE ON evidence_disclosure
    FOR EACH ROW WHEN (OLD.seq IS NOT NULL OR NEW.seq IS NULL OR NEW.digest IS NULL
        OR to_jsonb(OLD) - 'seq' - 'digest' <> to_jsonb(NEW) - 'seq' - 'digest')
    EXECUTE FUNCTION evidence_ledger_is_added_to();
CREATE TRIGGER evidence_checkpoint_added_only BEFORE UPDATE OR DELETE
    ON evidence_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
"""

# Wakes background jobs after a commit (operations.jobs). One channel serves all jobs: a
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


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        table(
            "Owner",
            ("owner_id", text_key()),
            (
                "user",
                belongs(
                    settings.AUTH_USER_MODEL, SET_NULL, blank=True, null=True, db_constraint=False
                ),
            ),
            ("display_name", TextField(default="Owner")),
            ("time_zone", TextField(db_default="UTC", default="UTC")),
            ("language", TextField(db_default="", default="")),
            ("country", TextField(db_default="", default="")),
            ("is_administrator", BooleanField(db_default=False, default=False)),
            ("disk_limit_bytes", BigIntegerField(blank=True, null=True)),
            ("created_at", DateTimeField()),
            ("removed_at", DateTimeField(blank=True, null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(("owner_id__regex", "^[a-z0-9]{1,32}$")),
                    name="owner_id_survives_a_token",
                )
            ],
        ),
        table(
            "Source",
            ("id", row_id()),
            owned(),
            ("kind", TextField(default="connector")),
            ("source_id", TextField(db_collation="C", help_text="Absolute URI of the source.")),
            ("connector_key", TextField(db_collation="C")),
            ("display_name", TextField()),
            constraints=[
                UniqueConstraint(fields=("owner", "source_id"), name="source_once_per_owner"),
                UniqueConstraint(
                    fields=("owner", "connector_key"), name="connector_key_once_per_owner"
                ),
                CheckConstraint(
                    condition=Q(("kind__in", ["connector", "provider_native"])),
                    name="source_kind_known",
                ),
            ],
        ),
        table(
            "SourceDeclaration",
            ("id", row_id()),
            owned(),
            ("source", same("evidence.source")),
            ("revision", PositiveIntegerField()),
            ("version", TextField()),
            ("snapshot", TextField()),
            ("layout", JSONField()),
            ("created_at", DateTimeField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "source", "revision"),
                    name="declaration_revision_once_per_source",
                )
            ],
        ),
        migrations.AddField(
            "source", "current_declaration", same("evidence.sourcedeclaration", null=True)
        ),
        table(
            "Connection",
            owned(),
            ("connection_id", text_key()),
            ("source", same("evidence.source")),
            ("display_name", TextField(verbose_name="label")),
            ("labelled_by_owner", BooleanField(db_default=False, default=False, editable=False)),
            (
                "status",
                TextField(
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
                    TextField(),
                    blank=True,
                    default=list,
                    help_text="Languages of its texts, for search: en, de, fr, …",
                ),
            ),
            (
                "identities",
                ArrayField(
                    TextField(),
                    blank=True,
                    db_default=Value([], output_field=ArrayField(TextField())),
                    default=list,
                    help_text="How the source calls its owner: addresses, ids, names.",
                ),
            ),
            (
                "indexed_languages",
                ArrayField(
                    TextField(),
                    db_default=Value([], output_field=ArrayField(TextField())),
                    default=list,
                    editable=False,
                ),
            ),
            ("indexed_analyser", SmallIntegerField(db_default=0, default=0, editable=False)),
            ("reindexing", JSONField(editable=False, null=True)),
            ("replaces", BooleanField(db_default=False, default=False)),
            ("demo", BooleanField(default=False, editable=False)),
            ("change_seq", BigIntegerField(default=0, editable=False)),
            ("pruned_seq", BigIntegerField(db_default=0, default=0, editable=False)),
            ("changes_kept_since", DateTimeField(editable=False, null=True)),
            ("created_at", DateTimeField(editable=False)),
            ("updated_at", DateTimeField(editable=False)),
            constraints=[
                CheckConstraint(
                    condition=Q(("connection_id__regex", "^[A-Za-z0-9_-]{1,64}$")),
                    name="connection_id_survives_the_id_grammar",
                ),
                CheckConstraint(
                    condition=Q(("status__in", ["draft", "active", "paused", "revoked"])),
                    name="connection_status_known",
                ),
                UniqueConstraint(
                    F("owner"), Lower("display_name"), name="connection_name_once_per_owner"
                ),
            ],
        ),
        table(
            "StreamState",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("stream", TextField(db_collation="C")),
            ("record_count", BigIntegerField(default=0)),
            ("latest_emitted_at", DateTimeField(null=True)),
            ("latest_declared_at", DateTimeField(null=True)),
            ("updated_at", DateTimeField()),
            ("removed", BigIntegerField(db_default=0, default=0)),
            ("removed_of", BigIntegerField(db_default=0, default=0)),
            ("removed_since", DateTimeField(null=True)),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "connection", "stream"),
                    name="stream_state_once_per_connection",
                ),
                CheckConstraint(
                    condition=Q(("record_count__gte", 0)), name="record_count_not_negative"
                ),
            ],
        ),
        table(
            "CollectorState",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("grant_id", TextField(db_collation="C", default="")),
            ("state", JSONField()),
            ("updated_at", DateTimeField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "connection", "grant_id"),
                    name="collector_state_once_per_connection_and_grant",
                )
            ],
        ),
        table(
            "EmbeddedStream",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("stream", TextField(db_collation="C")),
            ("model", TextField()),
            ("fields", ArrayField(TextField())),
            ("seq", BigIntegerField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "connection", "stream"),
                    name="embedded_stream_once_per_connection",
                )
            ],
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(PERSONAL_ROWS)],
            state_operations=[
                table(
                    "Record",
                    owned(),
                    ("pk", composite("owner_id", "connection_id", "stream", "record_key")),
                    ("connection_id", TextField(db_collation="C")),
                    ("stream", TextField(db_collation="C")),
                    ("record_key", TextField(db_collation="C")),
                    ("data", JSONField()),
                    ("sort_key", TextField(db_collation="C", null=True)),
                    ("consent_time", DateTimeField(null=True)),
                    ("emitted_at", DateTimeField()),
                    ("field_emitted", JSONField(null=True)),
                    (
                        "numbers",
                        ArrayField(DecimalField(decimal_places=20, max_digits=60), null=True),
                    ),
                    ("times", ArrayField(DateTimeField(), null=True)),
                    ("words", ArrayField(TextField(), null=True)),
                    ("link_1", TextField(db_collation="C", null=True)),
                    ("link_2", TextField(db_collation="C", null=True)),
                    ("link_3", TextField(db_collation="C", null=True)),
                    ("change_seq", BigIntegerField()),
                    indexes=[
                        Index(
                            fields=["owner", "connection_id", "stream", "sort_key", "record_key"],
                            name="record_in_order",
                        ),
                        Index(
                            fields=["owner", "connection_id", "stream", "consent_time"],
                            name="record_in_time",
                        ),
                        Index(
                            condition=Q(("link_1__isnull", False)),
                            fields=[
                                "owner",
                                "connection_id",
                                "stream",
                                "link_1",
                                "sort_key",
                                "record_key",
                            ],
                            name="record_link_1",
                        ),
                        Index(
                            condition=Q(("link_2__isnull", False)),
                            fields=[
                                "owner",
                                "connection_id",
                                "stream",
                                "link_2",
                                "sort_key",
                                "record_key",
                            ],
                            name="record_link_2",
                        ),
                        Index(
                            condition=Q(("link_3__isnull", False)),
                            fields=[
                                "owner",
                                "connection_id",
                                "stream",
                                "link_3",
                                "sort_key",
                                "record_key",
                            ],
                            name="record_link_3",
                        ),
                    ],
                ),
                table(
                    "RecordChange",
                    owned(),
                    ("pk", composite("owner_id", "connection_id", "seq")),
                    ("connection_id", TextField(db_collation="C")),
                    ("seq", BigIntegerField()),
                    ("stream", TextField(db_collation="C")),
                    ("record_key", TextField(db_collation="C")),
                    (
                        "kind",
                        TextField(choices=[("c", "created"), ("u", "updated"), ("d", "deleted")]),
                    ),
                    ("changed", ArrayField(TextField(), null=True)),
                    ("consent_time_before", DateTimeField(null=True)),
                    ("recorded_at", DateTimeField()),
                    indexes=[
                        Index(
                            fields=["owner", "connection_id", "stream", "record_key", "seq"],
                            name="change_of_record",
                        )
                    ],
                    constraints=[
                        CheckConstraint(
                            condition=Q(("kind__in", ["c", "u", "d"])), name="change_kind_known"
                        )
                    ],
                ),
                table(
                    "SearchText",
                    owned(),
                    ("pk", composite("owner_id", "connection_id", "stream", "record_key")),
                    ("connection_id", TextField(db_collation="C")),
                    ("stream", TextField(db_collation="C")),
                    ("record_key", TextField(db_collation="C")),
                    ("terms", SearchVectorField()),
                    ("word_order", ArrayField(BinaryField())),
                    ("authored_at", DateTimeField(null=True)),
                    ("analyser", SmallIntegerField()),
                    indexes=[
                        Index(
                            fields=[
                                "owner",
                                "connection_id",
                                "stream",
                                "authored_at",
                                "record_key",
                            ],
                            name="search_text_in_time",
                        )
                    ],
                ),
            ],
        ),
        table(
            "Suppression",
            owned(),
            ("pk", composite("owner_id", "connection_id", "stream", "key_digest")),
            ("connection_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("key_digest", BinaryField()),
            ("erased_at", DateTimeField()),
        ),
        table(
            "Blob",
            owned(),
            ("pk", composite("owner_id", "connection_id", "blob_id")),
            ("connection_id", TextField(db_collation="C")),
            ("blob_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("record_key", TextField(db_collation="C")),
            ("media_type", TextField()),
            ("size_bytes", BigIntegerField()),
            ("sha256", BinaryField()),
            ("created_at", DateTimeField()),
            indexes=[
                Index(
                    fields=["owner", "connection_id", "stream", "record_key"], name="blob_of_record"
                )
            ],
        ),
        table(
            "BlobChunk",
            owned(),
            ("pk", composite("owner_id", "connection_id", "blob_id", "position")),
            ("connection_id", TextField(db_collation="C")),
            ("blob_id", TextField(db_collation="C")),
            ("position", PositiveIntegerField()),
            ("content", BinaryField()),
        ),
        table(
            "Client",
            owned(),
            (
                "client_id",
                TextField(db_collation="C", editable=False, primary_key=True, serialize=False),
            ),
            ("display_name", TextField(verbose_name="name")),
            ("created_at", DateTimeField(editable=False)),
            constraints=[
                CheckConstraint(
                    condition=Q(("display_name", ""), _negated=True), name="client_name_not_empty"
                )
            ],
        ),
        table(
            "Package",
            owned(),
            ("package_id", text_key()),
            ("client", same("evidence.client")),
            ("approval", TextField(db_collation="C", null=True, unique=True)),
            ("created_at", DateTimeField()),
            ("revoked_at", DateTimeField(null=True)),
        ),
        table(
            "Grant",
            owned(),
            ("grant_id", text_key()),
            ("package", same("evidence.package")),
            ("source", same("evidence.source")),
            ("declaration", same("evidence.sourcedeclaration")),
            ("streams", JSONField()),
            ("purpose_code", TextField()),
            ("purpose_description", TextField(blank=True)),
            (
                "access_mode",
                TextField(
                    choices=[("continuous", "Continuous"), ("single_use", "Single use")],
                    default="continuous",
                ),
            ),
            ("retention", JSONField(null=True)),
            ("issued_at", DateTimeField()),
            ("expires_at", DateTimeField(null=True)),
            ("readable_until", DateTimeField(null=True)),
            ("paused_at", DateTimeField(null=True)),
            ("revoked_at", DateTimeField(null=True)),
            ("superseded_by", same_one("evidence.grant", null=True)),
            ("extends", same("evidence.grant", null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(
                        ("expires_at__isnull", True),
                        ("expires_at__gt", F("issued_at")),
                        _connector="OR",
                    ),
                    name="grant_ends_after_issue",
                ),
                CheckConstraint(
                    condition=Q(("access_mode__in", ["continuous", "single_use"])),
                    name="grant_access_mode_known",
                ),
            ],
        ),
        table(
            "AccessToken",
            owned(),
            ("token_id", text_key()),
            ("digest", BinaryField(unique=True)),
            (
                "kind",
                TextField(
                    choices=[("owner", "Owner"), ("client", "Client"), ("mcp_package", "Package")]
                ),
            ),
            ("resource", TextField()),
            ("package", same("evidence.package", null=True)),
            ("approval", TextField(db_collation="C", null=True)),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField(null=True)),
            ("revoked_at", DateTimeField(null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(
                        Q(("kind", "owner"), ("package__isnull", True)),
                        Q(("kind__in", ["client", "mcp_package"]), ("package__isnull", False)),
                        _connector="OR",
                    ),
                    name="owner_tokens_alone_have_no_package",
                ),
                CheckConstraint(
                    condition=Q(
                        Q(("kind", "owner"), _negated=True), ("resource", "/v1"), _connector="OR"
                    ),
                    name="owner_tokens_stay_at_rest",
                ),
                CheckConstraint(
                    condition=Q(("resource__in", ["/v1", "/mcp", "/mcp/events"])),
                    name="token_resource_known",
                ),
                UniqueConstraint(
                    fields=("owner", "approval", "resource"),
                    name="approval_makes_one_token_per_resource",
                ),
            ],
        ),
        table(
            "Collector",
            owned(),
            ("collector_id", text_key()),
            ("digest", BinaryField(unique=True)),
            ("name", TextField()),
            ("connection_ids", ArrayField(TextField(db_collation="C"))),
            ("created_at", DateTimeField()),
            ("used_at", DateTimeField(null=True)),
            ("revoked_at", DateTimeField(null=True)),
        ),
        table(
            "PermissionRequest",
            owned(),
            ("request_id", text_key()),
            ("digest", BinaryField(unique=True)),
            ("grant", same("evidence.grant", cascade=True)),
            ("stream", TextField()),
            ("fields", ArrayField(TextField(), null=True)),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField()),
            ("answered_at", DateTimeField(null=True)),
            (
                "answer",
                TextField(
                    blank=True,
                    choices=[
                        ("once", "Allowed once"),
                        ("hour", "Allowed for an hour"),
                        ("always", "Allowed"),
                        ("declined", "Declined"),
                    ],
                ),
            ),
            constraints=[
                CheckConstraint(
                    condition=Q(
                        Q(("answer", ""), ("answered_at__isnull", True)),
                        Q(
                            ("answer__in", ["once", "hour", "always", "declined"]),
                            ("answered_at__isnull", False),
                        ),
                        _connector="OR",
                    ),
                    name="permission_request_answered_with_an_answer",
                )
            ],
        ),
        table(
            "Bookmark",
            owned(),
            ("handle", BinaryField(primary_key=True, serialize=False)),
            ("content", BinaryField()),
            ("used_at", DateTimeField()),
        ),
        table(
            "Quota",
            ("id", row_id()),
            owned(),
            ("grant", same("evidence.grant", cascade=True)),
            (
                "measure",
                TextField(choices=[("calls", "Calls"), ("records", "Records"), ("bytes", "Bytes")]),
            ),
            ("period", TextField(choices=[("minute", "minute"), ("hour", "hour"), ("day", "day")])),
            ("most", BigIntegerField()),
            ("used", BigIntegerField(default=0)),
            ("since", DateTimeField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "grant", "measure", "period"),
                    name="quota_once_a_measure_and_period",
                ),
                CheckConstraint(
                    condition=Q(("measure__in", ["calls", "records", "bytes"])),
                    name="quota_measure_known",
                ),
                CheckConstraint(
                    condition=Q(("period__in", ["minute", "hour", "day"])),
                    name="quota_period_known",
                ),
                CheckConstraint(
                    condition=Q(("most__gte", 1), ("used__gte", 0)), name="quota_allows_something"
                ),
            ],
        ),
        table(
            "Tripwire",
            owned(),
            ("grant", same_one("evidence.grant", cascade=True, primary_key=True, serialize=False)),
            ("share", SmallIntegerField()),
            constraints=[
                CheckConstraint(
                    condition=Q(("share__gte", 0), ("share__lte", 100)),
                    name="tripwire_share_is_percent",
                )
            ],
        ),
        table(
            "Watch",
            ("id", row_id()),
            owned(),
            ("grant", same("evidence.grant", cascade=True)),
            ("stream", TextField()),
            ("slack", BigIntegerField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "grant", "stream"), name="watch_once_a_grant_and_stream"
                )
            ],
        ),
        table(
            "Alert",
            ("id", row_id()),
            owned(),
            ("grant", same("evidence.grant", cascade=True)),
            ("stream", TextField()),
            ("seen", BigIntegerField()),
            ("total", BigIntegerField()),
            ("hours", IntegerField()),
            ("at", DateTimeField()),
            ("acknowledged_at", DateTimeField(null=True)),
            indexes=[
                Index(
                    condition=Q(("acknowledged_at__isnull", True)),
                    fields=["owner", "at"],
                    name="alert_standing",
                )
            ],
        ),
        table(
            "RefusedCall",
            ("id", row_id()),
            owned(),
            ("at", DateTimeField()),
            ("client_id", TextField()),
            ("token_id", TextField()),
            ("request_id", TextField()),
            ("route", TextField()),
            ("code", TextField()),
            ("param", TextField()),
            ("stream", TextField()),
            ("clause", TextField()),
            indexes=[
                Index(fields=["owner", "client_id", "at"], name="refused_to_client"),
                Index(fields=["owner", "at"], name="refused_at"),
                Index(fields=["owner", "request_id"], name="refused_request"),
            ],
        ),
        table(
            "Disclosure",
            owned(),
            ("entry_id", UUIDField(**KEY)),
            ("chain", TextField(db_collation="C")),
            ("at", DateTimeField()),
            ("client_id", TextField()),
            ("token_id", TextField()),
            ("request_id", TextField()),
            ("route", TextField()),
            ("covered", TextField()),
            ("record_count", IntegerField()),
            ("counted", BigIntegerField(null=True)),
            ("size_bytes", BigIntegerField()),
            ("record_digests", ArrayField(BinaryField())),
            ("seal", BinaryField()),
            ("seq", BigIntegerField(null=True)),
            ("digest", BinaryField(null=True)),
            constraints=[
                UniqueConstraint(fields=("owner", "chain", "seq"), name="disclosure_once_a_number")
            ],
            indexes=[
                Index(fields=["owner", "at"], name="disclosure_at"),
                Index(fields=["owner", "client_id", "at"], name="disclosure_to_client"),
                Index(
                    condition=Q(("seq__isnull", True)),
                    fields=["owner", "chain"],
                    name="disclosure_unsigned",
                ),
                GinIndex(fields=["record_digests"], name="disclosure_of_record"),
            ],
        ),
        table(
            "DisclosedRecord",
            owned(),
            ("pk", composite("owner_id", "connection_id", "stream", "record_key")),
            ("connection_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("record_key", TextField(db_collation="C")),
            ("nonce", BinaryField()),
            ("digest", BinaryField()),
            indexes=[Index(fields=["owner", "digest"], name="record_of_digest")],
        ),
        table(
            "Checkpoint",
            ("id", row_id()),
            owned(),
            ("at", DateTimeField()),
            ("size", BigIntegerField()),
            ("heads", TextField()),
            ("note", TextField()),
            indexes=[BrinIndex(fields=["at"], name="checkpoint_at")],
        ),
        table(
            "Subscription",
            owned(),
            ("subscription_id", text_key()),
            ("package", same("evidence.package", cascade=True)),
            ("callback_url", TextField()),
            ("streams", ArrayField(TextField(), default=list)),
            ("secret", BinaryField()),
            ("old_secret", BinaryField(null=True)),
            ("old_secret_until", DateTimeField(null=True)),
            (
                "status",
                TextField(
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
            ("disabled_reason", TextField(null=True)),
            ("created_at", DateTimeField()),
            ("updated_at", DateTimeField()),
            constraints=[
                CheckConstraint(
                    condition=Q(
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
        ),
        table(
            "WatchedStream",
            owned(),
            ("pk", composite("owner_id", "subscription_id", "connection_id", "stream")),
            ("subscription", same("evidence.subscription", cascade=True)),
            ("stream", TextField(db_collation="C")),
            ("connection_id", TextField(db_collation="C")),
            ("standing", JSONField()),
            ("seen_seq", BigIntegerField()),
        ),
        table(
            "Event",
            owned(),
            ("event_id", text_key()),
            ("subscription", same("evidence.subscription", cascade=True)),
            (
                "type",
                TextField(
                    choices=[
                        ("pdpp.subscription.verify", "Verification"),
                        ("pdpp.subscription.test", "Test"),
                        ("pdpp.records.changed", "Records changed"),
                        ("pdpp.grant.revoked", "Grant revoked"),
                    ]
                ),
            ),
            ("stream", TextField(db_collation="C", default="")),
            ("connection_id", TextField(db_collation="C", default="")),
            ("place", JSONField(null=True)),
            ("challenge", TextField(default="")),
            (
                "status",
                TextField(
                    choices=[
                        ("queued", "On its way"),
                        ("delivered", "Delivered"),
                        ("failed", "Given up"),
                        ("dropped", "Not sent"),
                    ],
                    default="queued",
                ),
            ),
            ("attempts", PositiveSmallIntegerField(default=0)),
            ("answered", PositiveSmallIntegerField(null=True)),
            ("created_at", DateTimeField()),
            ("due_at", DateTimeField()),
            ("settled_at", DateTimeField(null=True)),
            indexes=[
                Index(
                    condition=Q(("status", "queued")),
                    fields=["due_at"],
                    name="events_due",
                )
            ],
            constraints=[
                UniqueConstraint(
                    condition=Q(("status", "queued"), ("type", "pdpp.records.changed")),
                    fields=("owner", "subscription", "stream", "connection_id"),
                    name="changes_of_a_stream_are_told_one_at_a_time",
                ),
                CheckConstraint(
                    condition=Q(("status__in", ["queued", "delivered", "failed", "dropped"])),
                    name="event_status_known",
                ),
            ],
        ),
        table(
            "Retention",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("stream", TextField(blank=True, db_collation="C", default="")),
            ("days", PositiveIntegerField()),
            ("set_at", DateTimeField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "connection", "stream"), name="retention_once_per_stream"
                ),
                CheckConstraint(condition=Q(("days__gte", 1)), name="retention_of_days"),
            ],
        ),
        table(
            "Erasure",
            owned(),
            ("erasure_id", text_key()),
            (
                "of",
                TextField(
                    choices=[
                        ("record", "Record"),
                        ("stream", "Stream"),
                        ("connection", "Connection"),
                        ("owner", "Everything"),
                    ]
                ),
            ),
            ("by", TextField()),
            ("connection_id", TextField(blank=True, db_collation="C")),
            ("stream", TextField(blank=True, db_collation="C")),
            ("record_digest", BinaryField(null=True)),
            ("before", DateTimeField(null=True)),
            ("tombstones", BooleanField(default=True)),
            ("removed", JSONField(default=dict)),
            ("kept", JSONField(default=dict)),
            ("wanted_at", DateTimeField()),
            ("updated_at", DateTimeField()),
            ("finished_at", DateTimeField(null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(("of__in", ["record", "stream", "connection", "owner"])),
                    name="erasure_of_something_known",
                )
            ],
        ),
        migrations.RunSQL(FROZEN),
        migrations.RunSQL(WAKE_JOBS),
        OwnerFirst(
            "Record",
            "RecordChange",
            "SearchText",
            "Suppression",
            "Blob",
            "BlobChunk",
            "DisclosedRecord",
            "Disclosure",
        ),
    ]
