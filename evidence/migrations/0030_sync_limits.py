"""Hold mass deletions of live accounts for the owner, and count what they read on a day."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0029_source_accounts")]

    operations = [
        migrations.AddField("sourceaccount", "held_deletions", models.JSONField(null=True)),
        migrations.AddField("sourceaccount", "allowed_pass", models.BigIntegerField(default=0)),
        migrations.AddField("sourceaccount", "traffic", models.JSONField(default=dict)),
    ]
