"""Limits of what is read through a grant, and how much was."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0014_failed_attempts"),
    ]

    operations = [
        migrations.CreateModel(
            name="Quota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
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
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
