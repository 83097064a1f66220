"""Compress the bytes of files where that makes them smaller, such as the HTML of mails.

PostgreSQL gives up early on pictures and archives. Files that are stored already stay as they are,
and so do tables on the nodes of a cluster, whose storage Citus cannot change.
"""

from django.db import migrations

SET_STORAGE = """
DO $$
DECLARE is_distributed boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_dist_partition'
            ' WHERE logicalrelid = ''evidence_blobchunk''::regclass)' INTO is_distributed;
    END IF;
    IF NOT is_distributed THEN
        ALTER TABLE evidence_blobchunk ALTER COLUMN content SET STORAGE {storage};
    END IF;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0040_job_wakeups")]

    operations = [
        migrations.RunSQL(
            SET_STORAGE.format(storage="EXTENDED"), SET_STORAGE.format(storage="EXTERNAL")
        )
    ]
