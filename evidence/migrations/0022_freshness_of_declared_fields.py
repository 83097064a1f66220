"""Freshness of the declared fields of each stream, computed once from its records."""

from django.db import migrations, models

COUNT_DECLARED = """
-- json, not jsonb: a snapshot may hold escapes that jsonb refuses.
WITH declared AS MATERIALIZED (
    SELECT c.connection_id, node ->> 'name' AS stream,
        ARRAY(SELECT json_object_keys(node -> 'schema' -> 'properties')) AS fields
    FROM evidence_connection c
    JOIN evidence_source s ON s.id = c.source_id
    JOIN evidence_sourcedeclaration d ON d.id = s.current_declaration_id
    CROSS JOIN json_array_elements(d.snapshot::json -> 'streams') AS node
)
UPDATE evidence_streamstate t
SET latest_declared_at = (
    SELECT max(coalesce((r.field_emitted ->> f.name)::timestamptz, r.emitted_at))
    FROM evidence_record r
    JOIN unnest(d.fields) AS f(name) ON r.data ? f.name
    WHERE r.connection_id = d.connection_id AND r.stream = d.stream
)
FROM declared d
WHERE t.connection_id = d.connection_id AND t.stream = d.stream
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0021_phones_are_sealed")]

    operations = [
        migrations.AddField(
            model_name="streamstate",
            name="latest_declared_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunSQL(COUNT_DECLARED, migrations.RunSQL.noop),
    ]
