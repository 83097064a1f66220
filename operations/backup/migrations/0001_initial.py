"""The tables of backups."""

from typing import Any

from django.db import migrations, models

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}


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
            name="BackupPlan",
            fields=[
                (
                    "owner",
                    belongs("evidence.owner", models.CASCADE, primary_key=True, serialize=False),
                ),
                ("public_key", models.BinaryField(null=True)),
                ("key_created_at", models.DateTimeField(null=True)),
                ("hour", models.PositiveSmallIntegerField(null=True)),
                ("daily", models.PositiveSmallIntegerField(default=7)),
                ("weekly", models.PositiveSmallIntegerField(default=4)),
                ("monthly", models.PositiveSmallIntegerField(default=12)),
                ("folder", models.TextField(default="")),
                ("store", models.JSONField(null=True)),
                ("store_secret", models.BinaryField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("is_paused", models.BooleanField(default=False)),
                ("problem", models.JSONField(null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="BackupCopy",
            fields=[
                ("id", row_id()),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("name", models.TextField()),
                ("place", models.TextField()),
                ("made_at", models.DateTimeField()),
                ("size_bytes", models.BigIntegerField()),
                ("rows", models.BigIntegerField()),
                ("fingerprint", models.TextField()),
                ("sealed", models.BinaryField()),
                ("drill_secret", models.BinaryField(null=True)),
                ("drilled_at", models.DateTimeField(null=True)),
                ("drill_problem", models.TextField(default="")),
            ],
            options={
                **OPTIONS,
                "indexes": [models.Index(fields=["owner", "made_at"], name="backup_copy_in_time")],
            },
            managers=UNSCOPED,
        ),
    ]
