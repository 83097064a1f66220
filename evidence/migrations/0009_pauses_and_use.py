"""Grants can be paused, an approval holds once, and the use of a package is counted by the day."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models

FROZEN_GRANT = """
CREATE OR REPLACE FUNCTION evidence_grant_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'revoked_at' - 'superseded_by_id'{paused})
       IS DISTINCT FROM (to_jsonb(OLD) - 'revoked_at' - 'superseded_by_id'{paused})
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
       OR (OLD.superseded_by_id IS NOT NULL
           AND NEW.superseded_by_id IS DISTINCT FROM OLD.superseded_by_id) THEN
        RAISE EXCEPTION 'a grant cannot change once it is issued'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'grant_is_frozen';
    END IF;
    RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0008_ledger")]

    operations = [
        migrations.AddField("grant", "paused_at", models.DateTimeField(null=True)),
        migrations.RunSQL(
            FROZEN_GRANT.format(paused=" - 'paused_at'"), FROZEN_GRANT.format(paused="")
        ),
        migrations.AddField(
            "package", "approval", models.TextField(db_collation="C", null=True, unique=True)
        ),
        migrations.CreateModel(
            name="PackageUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("requests", models.PositiveBigIntegerField()),
                ("last_at", models.DateTimeField()),
                (
                    "package",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.package",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("package", "day"), name="package_use_once_a_day"
                    )
                ],
            },
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
    ]
