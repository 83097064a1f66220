"""People: mentions derived from records, their counts, progress, and what the owner merged."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0035_owner_time_zone"),
    ]

    operations = [
        migrations.CreateModel(
            name="PeopleProgress",
            fields=[
                (
                    "connection",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="evidence.connection",
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("basis", models.TextField()),
                ("is_complete", models.BooleanField()),
                ("after_stream", models.TextField(db_collation="C", default="")),
                ("after_key", models.TextField(db_collation="C", default="")),
            ],
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Mention",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "connection_id",
                        "stream",
                        "record_key",
                        "identity",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
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
                "default_manager_name": "unscoped",
                "indexes": [
                    models.Index(
                        fields=["connection_id", "stream", "identity", "at", "record_key"],
                        name="mention_in_time",
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="PersonCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "connection_id",
                        "stream",
                        "identity",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
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
                "default_manager_name": "unscoped",
                "indexes": [
                    models.Index(fields=["person"], name="person_count_of_person"),
                    models.Index(fields=["identity"], name="person_count_of_identity"),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="PersonMerge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "owner_id",
                        "identity",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("identity", models.TextField(db_collation="C")),
                ("person", models.TextField(db_collation="C")),
                ("merged_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.owner",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
