"""The tables of backups."""

from django.db import migrations
from django.db.models import (
    CASCADE,
    BigIntegerField,
    BinaryField,
    BooleanField,
    DateTimeField,
    Index,
    JSONField,
    PositiveSmallIntegerField,
    TextField,
)

from evidence.migrations import OwnerFirst, belongs, owned, row_id, table


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "BackupPlan",
            ("owner", belongs("evidence.owner", CASCADE, primary_key=True, serialize=False)),
            ("recipient", TextField(default="")),
            ("key_created_at", DateTimeField(null=True)),
            ("hour", PositiveSmallIntegerField(null=True)),
            ("daily", PositiveSmallIntegerField(default=7)),
            ("weekly", PositiveSmallIntegerField(default=4)),
            ("monthly", PositiveSmallIntegerField(default=12)),
            ("covers_everyone", BooleanField(default=False)),
            ("folder", TextField(default="")),
            ("due_at", DateTimeField(null=True)),
            ("is_paused", BooleanField(default=False)),
            ("problem", JSONField(null=True)),
        ),
        table(
            "BackupCopy",
            ("id", row_id()),
            owned(),
            ("name", TextField()),
            ("folder", TextField()),
            ("made_at", DateTimeField()),
            ("size_bytes", BigIntegerField()),
            ("rows", BigIntegerField()),
            ("fingerprint", TextField()),
            ("sealed", BinaryField()),
            ("drill_key", BinaryField(null=True)),
            ("drilled_at", DateTimeField(null=True)),
            ("drill_problem", TextField(default="")),
            indexes=[Index(fields=["owner", "made_at"], name="backup_copy_in_time")],
        ),
        OwnerFirst(),
    ]
