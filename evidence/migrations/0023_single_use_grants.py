"""A single-use grant closes ten minutes after its first disclosing answer; the time is set once."""

from django.db import migrations, models

FROZEN_GRANT = """
CREATE OR REPLACE FUNCTION evidence_grant_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'revoked_at' - 'superseded_by_id' - 'paused_at'{removed})
       IS DISTINCT FROM (to_jsonb(OLD) - 'revoked_at' - 'superseded_by_id' - 'paused_at'{removed})
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
       {set_once}
       OR (OLD.superseded_by_id IS NOT NULL
           AND NEW.superseded_by_id IS DISTINCT FROM OLD.superseded_by_id) THEN
        RAISE EXCEPTION 'a grant cannot change once it is issued'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'grant_is_frozen';
    END IF;
    RETURN NEW;
END $$;
"""
SET_ONCE = (
    "OR (OLD.readable_until IS NOT NULL AND NEW.readable_until IS DISTINCT FROM OLD.readable_until)"
)


class Migration(migrations.Migration):
    dependencies = [("evidence", "0022_freshness_of_declared_fields")]

    operations = [
        migrations.AddField("grant", "readable_until", models.DateTimeField(null=True)),
        migrations.RunSQL(
            FROZEN_GRANT.format(removed=" - 'readable_until'", set_once=SET_ONCE),
            FROZEN_GRANT.format(removed="", set_once=""),
        ),
    ]
