"""Keep the totals of each import run, by stream, account and currency."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0026_sibling_refresh_tokens")]

    operations = [
        migrations.AddField(
            "importrun",
            "totals",
            models.JSONField(default=dict, help_text="By stream, account and currency."),
        ),
    ]
