"""Indexes for the order of the list of people, and for names."""

import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0036_people"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="personcount",
            index=models.Index(
                django.db.models.functions.text.Upper("name"), name="person_count_of_name"
            ),
        ),
        migrations.AddIndex(
            model_name="personcount",
            index=models.Index(
                models.OrderBy(models.F("last_at"), descending=True, nulls_last=True),
                name="person_count_by_time",
            ),
        ),
        migrations.AddIndex(
            model_name="personcount",
            index=models.Index(
                models.OrderBy(models.F("records"), descending=True, nulls_last=True),
                name="person_count_by_records",
            ),
        ),
    ]
