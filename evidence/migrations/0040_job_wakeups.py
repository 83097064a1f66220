"""Notify background jobs of changes to the tables that they depend on.

One channel for all jobs: a transaction that changes many rows sends one notification.
"""

from django.db import migrations

TABLES = {
    "connection": "INSERT OR UPDATE OR DELETE",
    "source": "UPDATE",
    "sourceaccount": "INSERT OR UPDATE",
    "event": "INSERT OR UPDATE",
    "subscription": "INSERT OR UPDATE",
    "grant": "UPDATE OF paused_at, revoked_at",
    "erasure": "INSERT OR UPDATE",
    "waitingexport": "UPDATE",
}
FUNCTION = """
CREATE FUNCTION evidence_wake_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('pdpp_jobs', '');
    RETURN NULL;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("evidence", "0039_passkeys")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION evidence_wake_jobs()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER wake_jobs AFTER {changes} ON evidence_{table}"
                " FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs()",
                f"DROP TRIGGER wake_jobs ON evidence_{table}",
            )
            for table, changes in TABLES.items()
        ),
    ]
