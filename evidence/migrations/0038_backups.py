"""The plan for backups and the copies that were made."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0037_people_in_order"),
    ]

    operations = [
        migrations.CreateModel(
            name="BackupPlan",
            fields=[
                (
                    "owner",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="evidence.owner",
                    ),
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
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="BackupCopy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
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
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.owner",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
                "indexes": [models.Index(fields=["owner", "made_at"], name="backup_copy_in_time")],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
