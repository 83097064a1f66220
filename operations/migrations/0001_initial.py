"""The table of background jobs."""

from django.db import migrations
from django.db.models import DateTimeField, TextField

from evidence.migrations import table, text_key


class Migration(migrations.Migration):
    initial = True

    operations = [
        table(
            "Job",
            ("name", text_key()),
            ("due_at", DateTimeField()),
            ("worker", TextField(default="")),
            ("leased_until", DateTimeField(null=True)),
            ("failing_since", DateTimeField(null=True)),
        )
    ]
