"""The tables of imports, then those of live sources."""

from django.db import migrations
from django.db.models import (
    BigIntegerField,
    BinaryField,
    BooleanField,
    CheckConstraint,
    DateTimeField,
    Index,
    IntegerField,
    JSONField,
    Q,
    TextField,
    UniqueConstraint,
)

from evidence.migrations import (
    OwnerFirst,
    composite,
    owned,
    row_id,
    same,
    same_one,
    table,
    text_key,
)

# Wakes background jobs after a commit (operations.jobs).
WAKE_JOBS = """
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE ON importers_sourceaccount
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER UPDATE ON importers_waitingexport
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "ImportRun",
            owned(),
            ("run_id", text_key()),
            ("connection", same("evidence.connection", cascade=True)),
            ("kind", TextField()),
            ("label", TextField(help_text="The name of the file or folder.")),
            ("fingerprint", TextField(db_collation="C")),
            (
                "status",
                TextField(
                    choices=[
                        ("running", "Running"),
                        ("finished", "Finished"),
                        ("stopped", "Stopped before its end"),
                    ],
                    default="running",
                ),
            ),
            ("items_done", BigIntegerField(default=0)),
            ("bytes_done", BigIntegerField(default=0)),
            ("bytes_total", BigIntegerField(default=0)),
            ("created", BigIntegerField(default=0)),
            ("updated", BigIntegerField(default=0)),
            ("unchanged", BigIntegerField(default=0)),
            ("doubles", BigIntegerField(default=0)),
            ("files", BigIntegerField(default=0)),
            ("left_out", BigIntegerField(default=0)),
            ("remarked", BigIntegerField(default=0)),
            ("totals", JSONField(default=dict, help_text="By stream, account and currency.")),
            ("started_at", DateTimeField()),
            ("updated_at", DateTimeField()),
            indexes=[
                Index(fields=["owner", "connection", "fingerprint"], name="import_of_an_export")
            ],
            constraints=[
                CheckConstraint(
                    condition=Q(("status__in", ["running", "finished", "stopped"])),
                    name="import_status_known",
                )
            ],
        ),
        table(
            "ImportReceipt",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("run", same("importers.importrun", cascade=True)),
            ("item", BigIntegerField()),
            ("file", TextField()),
            ("place", TextField()),
            ("code", TextField()),
            ("detail", TextField()),
        ),
        table(
            "ImportChoice",
            ("id", row_id()),
            owned(),
            ("connection", same("evidence.connection", cascade=True)),
            ("name", TextField(db_collation="C")),
            ("value", JSONField()),
            constraints=[
                UniqueConstraint(
                    fields=("owner", "connection", "name"), name="import_choice_once_per_connection"
                )
            ],
        ),
        table(
            "WaitingExport",
            owned(),
            ("waiting_id", text_key()),
            ("path", TextField(db_collation="C")),
            ("question", TextField()),
            ("flag", TextField(help_text="The option of the command line that answers.")),
            ("answer", JSONField(default=dict)),
            ("is_due", BooleanField(default=False, help_text="Answered, and not imported yet.")),
            ("asked_at", DateTimeField()),
            constraints=[
                UniqueConstraint(fields=("owner", "path"), name="waiting_export_once_per_path")
            ],
        ),
        table(
            "SourceAccount",
            owned(),
            (
                "connection",
                same_one("evidence.connection", cascade=True, primary_key=True, serialize=False),
            ),
            ("source_name", TextField(db_collation="C")),
            ("settings", JSONField(default=dict)),
            ("credential", BinaryField(null=True)),
            ("is_mirror", BooleanField(default=False)),
            ("state", JSONField(default=dict)),
            ("version", BigIntegerField(default=0)),
            ("pass_number", BigIntegerField(default=1)),
            ("held_deletions", JSONField(null=True)),
            ("allowed_pass", BigIntegerField(default=0)),
            ("traffic", JSONField(default=dict)),
            ("due_at", DateTimeField()),
            ("failures", IntegerField(default=0)),
            ("problem", JSONField(null=True)),
            ("last_run", JSONField(default=dict)),
            ("succeeded_at", DateTimeField(null=True)),
            ("created_at", DateTimeField()),
            indexes=[Index(fields=["due_at"], name="source_account_due")],
        ),
        table(
            "SyncedItem",
            owned(),
            ("pk", composite("owner_id", "connection_id", "container", "ref")),
            ("connection", same("evidence.connection", cascade=True)),
            ("container", TextField(db_collation="C")),
            ("ref", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("record_key", TextField(db_collation="C")),
            ("mark", TextField(default="")),
            ("is_ours", BooleanField(default=False)),
            ("gone_pass", BigIntegerField(null=True)),
            ("seen_at", DateTimeField()),
            indexes=[
                Index(fields=["owner", "connection", "record_key"], name="synced_item_of_record"),
                Index(
                    condition=Q(("gone_pass__isnull", False)),
                    fields=["owner", "connection", "gone_pass"],
                    name="synced_item_gone",
                ),
            ],
        ),
        migrations.RunSQL(WAKE_JOBS),
        OwnerFirst("SyncedItem"),
    ]
