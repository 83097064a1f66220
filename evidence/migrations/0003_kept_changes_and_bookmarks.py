"""Which changes of a connection are still known, and bookmarks too long to be handed out whole."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0002_personal_rows")]

    operations = [
        migrations.AddField(
            model_name="connection",
            name="pruned_seq",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="connection",
            name="changes_kept_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="Bookmark",
            fields=[
                ("handle", models.BinaryField(primary_key=True, serialize=False)),
                ("content", models.BinaryField()),
                ("used_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.owner",
                    ),
                ),
            ],
            options={"default_manager_name": "unscoped"},
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
    ]
