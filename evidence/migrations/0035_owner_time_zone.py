"""Add the time zone and the language of the owner."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0034_unique_connection_names")]

    operations = [
        migrations.AddField(
            "owner", "time_zone", models.TextField(default="UTC", db_default="UTC")
        ),
        migrations.AddField("owner", "language", models.TextField(default="", db_default="")),
    ]
