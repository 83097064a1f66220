"""Columns for the foreign keys by which records of other streams reach a record, with indexes that
give the newest of a parent first."""

from django.db import migrations, models

FORWARD = "".join(
    f"""
ALTER TABLE evidence_record ADD COLUMN link_{n} text COLLATE "C";
CREATE INDEX record_link_{n}
    ON evidence_record (connection_id, stream, link_{n}, sort_key, record_key)
    WHERE link_{n} IS NOT NULL;
"""
    for n in (1, 2, 3)
)
REVERSE = "".join(f"ALTER TABLE evidence_record DROP COLUMN link_{n};" for n in (1, 2, 3))


class Migration(migrations.Migration):
    dependencies = [("evidence", "0003_kept_changes_and_bookmarks")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, REVERSE)],
            state_operations=[
                operation
                for n in (1, 2, 3)
                for operation in (
                    migrations.AddField(
                        model_name="record",
                        name=f"link_{n}",
                        field=models.TextField(db_collation="C", null=True),
                    ),
                    migrations.AddIndex(
                        model_name="record",
                        index=models.Index(
                            condition=models.Q((f"link_{n}__isnull", False)),
                            fields=[
                                "connection_id",
                                "stream",
                                f"link_{n}",
                                "sort_key",
                                "record_key",
                            ],
                            name=f"record_link_{n}",
                        ),
                    ),
                )
            ],
        )
    ]
