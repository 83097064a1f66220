"""The order of the words of each record; reindexing fills it for stored records."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0041_compress_files")]

    operations = [
        migrations.AddField(
            model_name="searchtext",
            name="word_order",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BinaryField(), null=True, size=None
            ),
        ),
    ]
