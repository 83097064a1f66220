"""How the source of a connection calls its owner."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0004_links")]

    operations = [
        migrations.AddField(
            model_name="connection",
            name="identities",
            field=ArrayField(
                models.TextField(),
                default=list,
                db_default=models.Value([], output_field=ArrayField(models.TextField())),
                blank=True,
                help_text="How the source calls its owner: addresses, ids, names.",
            ),
        )
    ]
