"""Remember which problem of a live account was mailed to its owner."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0031_waiting_exports")]

    operations = [
        migrations.AddField("sourceaccount", "mailed", models.TextField(default="")),
    ]
