"""The tables of people."""

from django.db import migrations
from django.db.models import BigIntegerField, BooleanField, DateTimeField, F, Index, TextField
from django.db.models.functions import Upper

from evidence.migrations import OwnerFirst, composite, owned, same_one, table


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "Mention",
            owned(),
            ("pk", composite("owner_id", "connection_id", "stream", "record_key", "identity")),
            ("connection_id", TextField(db_collation="C")),
            ("stream", TextField(db_collation="C")),
            ("record_key", TextField(db_collation="C")),
            ("identity", TextField(db_collation="C")),
            ("name", TextField(null=True)),
            ("at", DateTimeField(null=True)),
            indexes=[
                Index(
                    fields=["owner", "connection_id", "stream", "identity", "at", "record_key"],
                    name="mention_in_time",
                )
            ],
        ),
        table(
            "PersonCount",
            owned(),
            ("pk", composite("owner_id", "connection_id", "stream", "identity")),
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
                Index(fields=["owner", "person"], name="person_count_of_person"),
                Index(fields=["owner", "identity"], name="person_count_of_identity"),
                Index(F("owner"), Upper("name"), name="person_count_of_name"),
                Index(F("owner"), F("last_at").desc(nulls_last=True), name="person_count_by_time"),
                Index(
                    F("owner"), F("records").desc(nulls_last=True), name="person_count_by_records"
                ),
            ],
        ),
        table(
            "PersonMerge",
            owned(),
            ("pk", composite("owner_id", "identity")),
            ("identity", TextField(db_collation="C")),
            ("person", TextField(db_collation="C")),
            ("merged_at", DateTimeField()),
        ),
        table(
            "PeopleProgress",
            owned(),
            (
                "connection",
                same_one("evidence.connection", cascade=True, primary_key=True, serialize=False),
            ),
            ("seq", BigIntegerField()),
            ("basis", TextField()),
            ("is_complete", BooleanField()),
            ("after_stream", TextField(db_collation="C", default="")),
            ("after_key", TextField(db_collation="C", default="")),
        ),
        OwnerFirst("Mention", "PersonCount"),
    ]
