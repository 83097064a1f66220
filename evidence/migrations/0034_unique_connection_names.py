"""Give connections of the same name distinct ones, and keep names unique."""

from django.db import migrations, models
from django.db.models.functions import Lower

NUMBER_DUPLICATES = """
-- Number the connections whose name an earlier connection has, until all names are distinct.
DO $$
DECLARE
    passes int := 0;
BEGIN
    LOOP
        UPDATE evidence_connection c
        SET display_name = left(c.display_name, 180) || ' ' || (d.place + passes)
        FROM (
            SELECT connection_id, row_number() OVER (
                PARTITION BY owner_id, lower(display_name) ORDER BY created_at, connection_id
            ) AS place
            FROM evidence_connection
        ) d
        WHERE d.connection_id = c.connection_id AND d.place > 1;
        EXIT WHEN NOT FOUND;
        passes := passes + 1;
    END LOOP;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0033_notifications")]

    operations = [
        migrations.RunSQL(NUMBER_DUPLICATES, migrations.RunSQL.noop),
        migrations.AddConstraint(
            "connection",
            models.UniqueConstraint(
                "owner", Lower("display_name"), name="connection_name_once_per_owner"
            ),
        ),
    ]
