"""The tables of people."""

from django.db import migrations
from django.db.models import (
    CASCADE,
    BigIntegerField,
    BooleanField,
    DateTimeField,
    F,
    Index,
    TextField,
)
from django.db.models.functions import Upper

from evidence.migrations import belongs, composite, refers, table


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "Mention",
            ("pk", composite("connection_id", "stream", "record_key", "identity")),
            ("connection_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("record_key", TextField(db_collation="C")),
            ("identity", TextField(db_collation="C")),
            ("name", TextField(null=True)),
            ("at", DateTimeField(null=True)),
            indexes=[
                Index(
                    fields=["connection_id", "stream", "identity", "at", "record_key"],
                    name="mention_in_time",
                )
            ],
        ),
        table(
            "PersonCount",
            ("pk", composite("connection_id", "stream", "identity")),
            ("connection_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("identity", TextField(db_collation="C")),
            ("own_person", TextField(db_collation="C")),
            ("person", TextField(db_collation="C")),
            ("name", TextField(null=True)),
            ("records", BigIntegerField()),
            ("first_at", DateTimeField(null=True)),
            ("last_at", DateTimeField(null=True)),
            indexes=[
                Index(fields=["person"], name="person_count_of_person"),
                Index(fields=["identity"], name="person_count_of_identity"),
                Index(Upper("name"), name="person_count_of_name"),
                Index(
                    F("last_at").desc(nulls_last=True),
                    name="person_count_by_time",
                ),
                Index(
                    F("records").desc(nulls_last=True),
                    name="person_count_by_records",
                ),
            ],
        ),
        table(
            "PersonMerge",
            ("pk", composite("owner_id", "identity")),
            ("owner", refers("evidence.owner", CASCADE)),
            ("identity", TextField(db_collation="C")),
            ("person", TextField(db_collation="C")),
            ("merged_at", DateTimeField()),
        ),
        table(
            "PeopleProgress",
            (
                "connection",
                belongs("evidence.connection", CASCADE, primary_key=True, serialize=False),
            ),
            ("seq", BigIntegerField()),
            ("basis", TextField()),
            ("is_complete", BooleanField()),
            ("after_stream", TextField(db_collation="C", default="")),
            ("after_key", TextField(db_collation="C", default="")),
        ),
    ]
