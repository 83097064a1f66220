"""A grant through which too much was read pauses by itself, and its owner is told."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0016_erasures"),
    ]

    operations = [
        migrations.CreateModel(
            name="Tripwire",
            fields=[
                (
                    "grant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="evidence.grant",
                    ),
                ),
                ("share", models.SmallIntegerField()),
            ],
            options={
                "default_manager_name": "unscoped",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("share__gte", 0), ("share__lte", 100)),
                        name="tripwire_share_is_percent",
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stream", models.TextField()),
                ("seen", models.BigIntegerField()),
                ("total", models.BigIntegerField()),
                ("hours", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("mailed_at", models.DateTimeField(null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
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
                "indexes": [
                    models.Index(
                        condition=models.Q(("acknowledged_at__isnull", True)),
                        fields=["at"],
                        name="alert_standing",
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Watch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stream", models.TextField()),
                ("slack", models.BigIntegerField()),
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
                        fields=("grant", "stream"), name="watch_once_a_grant_and_stream"
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
