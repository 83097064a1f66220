"""Refused calls of clients, with the clause that decided."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0018_event_subscriptions"),
    ]

    operations = [
        migrations.CreateModel(
            name="RefusedCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("client_id", models.TextField()),
                ("token_id", models.TextField()),
                ("request_id", models.TextField()),
                ("route", models.TextField()),
                ("code", models.TextField()),
                ("param", models.TextField()),
                ("stream", models.TextField()),
                ("clause", models.TextField()),
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
                "indexes": [
                    models.Index(fields=["client_id", "at"], name="refused_to_client"),
                    models.Index(fields=["at"], name="refused_at"),
                    models.Index(fields=["request_id"], name="refused_request"),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
