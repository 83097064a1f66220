"""The ledger: what was disclosed to whom. Its rows can be added and never changed."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models

ADDED_ONLY = """
CREATE FUNCTION evidence_ledger_is_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is added to and never changed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER evidence_disclosure_added_only BEFORE UPDATE OR DELETE
    ON evidence_disclosure FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
CREATE TRIGGER evidence_checkpoint_added_only BEFORE UPDATE OR DELETE
    ON evidence_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION evidence_ledger_is_added_to();
"""
FREE = """
DROP TRIGGER evidence_disclosure_added_only ON evidence_disclosure;
DROP TRIGGER evidence_checkpoint_added_only ON evidence_checkpoint;
DROP FUNCTION evidence_ledger_is_added_to();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0007_embedded_streams"),
    ]

    operations = [
        migrations.CreateModel(
            name="Chain",
            fields=[
                ("chain", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField(default=0)),
                ("digest", models.BinaryField()),
                ("seal", models.BinaryField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
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
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("heads", models.TextField()),
                ("note", models.TextField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
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
        migrations.CreateModel(
            name="Disclosure",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "chain",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("chain", models.TextField(db_collation="C")),
                ("seq", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("client_id", models.TextField()),
                ("token_id", models.TextField()),
                ("request_id", models.TextField()),
                ("route", models.TextField()),
                ("covered", models.TextField()),
                ("record_count", models.IntegerField()),
                ("size_bytes", models.BigIntegerField()),
                (
                    "pseudonyms",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                ("previous", models.BinaryField()),
                ("digest", models.BinaryField()),
            ],
            options={
                "default_manager_name": "unscoped",
                "indexes": [
                    models.Index(fields=["at"], name="disclosure_at"),
                    models.Index(fields=["client_id", "at"], name="disclosure_to_client"),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["pseudonyms"], name="disclosure_of_record"
                    ),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Pseudonym",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "connection_id",
                        "stream",
                        "record_key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("connection_id", models.TextField(db_collation="C")),
                ("stream", models.TextField(db_collation="C")),
                ("record_key", models.TextField(db_collation="C")),
                ("pseudonym", models.UUIDField()),
            ],
            options={
                "default_manager_name": "unscoped",
                "indexes": [models.Index(fields=["pseudonym"], name="pseudonym_of")],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.RunSQL(ADDED_ONLY, FREE),
    ]
