"""The tables of imports, then those of live sources."""

from typing import Any

from django.db import migrations, models

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}
KEY = {"blank": True, "editable": False, "primary_key": True, "serialize": False}

# Wakes background jobs after a commit (operations.job_wakeups).
WAKE_JOBS = """
CREATE TRIGGER wake_jobs AFTER INSERT OR UPDATE ON importers_sourceaccount
    FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs();
CREATE TRIGGER wake_jobs AFTER UPDATE ON importers_waitingexport
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

    dependencies = [("evidence", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ImportRun",
            fields=[
                ("run_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("owner", refers("evidence.owner", models.PROTECT)),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("kind", models.TextField()),
                ("label", models.TextField(help_text="The name of the file or folder.")),
                ("fingerprint", models.TextField(db_collation="C")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("stopped", "Stopped before its end"),
                        ],
                        default="running",
                    ),
                ),
                ("items_done", models.BigIntegerField(default=0)),
                ("bytes_done", models.BigIntegerField(default=0)),
                ("bytes_total", models.BigIntegerField(default=0)),
                ("created", models.BigIntegerField(default=0)),
                ("updated", models.BigIntegerField(default=0)),
                ("unchanged", models.BigIntegerField(default=0)),
                ("doubles", models.BigIntegerField(default=0)),
                ("files", models.BigIntegerField(default=0)),
                ("left_out", models.BigIntegerField(default=0)),
                ("remarked", models.BigIntegerField(default=0)),
                (
                    "totals",
                    models.JSONField(default=dict, help_text="By stream, account and currency."),
                ),
                ("started_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(fields=["connection", "fingerprint"], name="import_of_an_export")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["running", "finished", "stopped"])),
                        name="import_status_known",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="ImportReceipt",
            fields=[
                ("id", row_id()),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("run", refers("importers.importrun", models.CASCADE)),
                ("item", models.BigIntegerField()),
                ("file", models.TextField()),
                ("place", models.TextField()),
                ("code", models.TextField()),
                ("detail", models.TextField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="ImportChoice",
            fields=[
                ("id", row_id()),
                ("connection", refers("evidence.connection", models.CASCADE)),
                ("name", models.TextField(db_collation="C")),
                ("value", models.JSONField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("connection", "name"), name="import_choice_once_per_connection"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="WaitingExport",
            fields=[
                (
                    "waiting_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("path", models.TextField(db_collation="C")),
                ("question", models.TextField()),
                (
                    "flag",
                    models.TextField(help_text="The option of the command line that answers."),
                ),
                ("answer", models.JSONField(default=dict)),
                (
                    "is_due",
                    models.BooleanField(default=False, help_text="Answered, and not imported yet."),
                ),
                ("asked_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "path"), name="waiting_export_once_per_path"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="SourceAccount",
            fields=[
                (
                    "connection",
                    belongs(
                        "evidence.connection", models.CASCADE, primary_key=True, serialize=False
                    ),
                ),
                ("source_name", models.TextField(db_collation="C")),
                ("settings", models.JSONField(default=dict)),
                ("credential", models.BinaryField(null=True)),
                ("is_mirror", models.BooleanField(default=False)),
                ("state", models.JSONField(default=dict)),
                ("version", models.BigIntegerField(default=0)),
                ("pass_number", models.BigIntegerField(default=1)),
                ("held_deletions", models.JSONField(null=True)),
                ("allowed_pass", models.BigIntegerField(default=0)),
                ("traffic", models.JSONField(default=dict)),
                ("due_at", models.DateTimeField()),
                ("failures", models.IntegerField(default=0)),
                ("problem", models.JSONField(null=True)),
                ("last_run", models.JSONField(default=dict)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "indexes": [models.Index(fields=["due_at"], name="source_account_due")],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="SyncedItem",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "container", "ref", **KEY)),
                ("connection", refers("evidence.connection", models.CASCADE, db_index=False)),
                ("container", models.TextField(db_collation="C")),
                ("ref", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("record_key", models.TextField(db_collation="C")),
                ("mark", models.TextField(default="")),
                ("is_ours", models.BooleanField(default=False)),
                ("gone_pass", models.BigIntegerField(null=True)),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(fields=["connection", "record_key"], name="synced_item_of_record"),
                    models.Index(
                        condition=models.Q(("gone_pass__isnull", False)),
                        fields=["connection", "gone_pass"],
                        name="synced_item_gone",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.RunSQL(WAKE_JOBS),
    ]
