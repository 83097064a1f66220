"""The tables of people."""

from typing import Any

from django.db import migrations, models
from django.db.models.functions import Upper

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}
KEY = {"blank": True, "editable": False, "primary_key": True, "serialize": False}


def refers(to: str, on_delete: Any, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


def belongs(to: str, on_delete: Any, **options: Any) -> models.OneToOneField:
    return models.OneToOneField(to=to, on_delete=on_delete, related_name="+", **options)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Mention",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "connection_id", "stream", "record_key", "identity", **KEY
                    ),
                ),
                ("connection_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("record_key", models.TextField(db_collation="C")),
                ("identity", models.TextField(db_collation="C")),
                ("name", models.TextField(null=True)),
                ("at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(
                        fields=["connection_id", "stream", "identity", "at", "record_key"],
                        name="mention_in_time",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="PersonCount",
            fields=[
                ("pk", models.CompositePrimaryKey("connection_id", "stream", "identity", **KEY)),
                ("connection_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("identity", models.TextField(db_collation="C")),
                ("own_person", models.TextField(db_collation="C")),
                ("person", models.TextField(db_collation="C")),
                ("name", models.TextField(null=True)),
                ("records", models.BigIntegerField()),
                ("first_at", models.DateTimeField(null=True)),
                ("last_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "indexes": [
                    models.Index(fields=["person"], name="person_count_of_person"),
                    models.Index(fields=["identity"], name="person_count_of_identity"),
                    models.Index(Upper("name"), name="person_count_of_name"),
                    models.Index(
                        models.OrderBy(models.F("last_at"), descending=True, nulls_last=True),
                        name="person_count_by_time",
                    ),
                    models.Index(
                        models.OrderBy(models.F("records"), descending=True, nulls_last=True),
                        name="person_count_by_records",
                    ),
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="PersonMerge",
            fields=[
                ("pk", models.CompositePrimaryKey("owner_id", "identity", **KEY)),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("identity", models.TextField(db_collation="C")),
                ("person", models.TextField(db_collation="C")),
                ("merged_at", models.DateTimeField()),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="PeopleProgress",
            fields=[
                (
                    "connection",
                    belongs(
                        "evidence.connection", models.CASCADE, primary_key=True, serialize=False
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("basis", models.TextField()),
                ("is_complete", models.BooleanField()),
                ("after_stream", models.TextField(db_collation="C", default="")),
                ("after_key", models.TextField(db_collation="C", default="")),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
    ]
