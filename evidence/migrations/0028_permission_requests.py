"""Add permission requests, and temporary grants that extend another."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0027_import_totals"),
    ]

    operations = [
        migrations.AddField(
            model_name="grant",
            name="extends",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="evidence.grant",
            ),
        ),
        migrations.CreateModel(
            name="PermissionRequest",
            fields=[
                (
                    "request_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("digest", models.BinaryField(unique=True)),
                ("stream", models.TextField()),
                (
                    "fields",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
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
                ("mailed_at", models.DateTimeField(null=True)),
                (
                    "grant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.grant",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
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
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
