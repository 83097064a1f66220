"""Keep the exports in a watched folder that wait for an answer."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0030_sync_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="WaitingExport",
            fields=[
                (
                    "waiting_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "path"), name="waiting_export_once_per_path"
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
