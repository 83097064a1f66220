"""Give tokens the id of the form that made them, and end sessions whose keys are stored in clear."""

from django.db import migrations, models

# A key of Django has 32 characters, a digest of one has 40. Owners sign in again.
DELETE_CLEAR_KEYS = "DELETE FROM django_session WHERE length(session_key) < 40"


class Migration(migrations.Migration):
    dependencies = [("evidence", "0024_record_digests"), ("sessions", "0001_initial")]

    operations = [
        migrations.AddField(
            "accesstoken", "approval", models.TextField(db_collation="C", null=True)
        ),
        migrations.AddConstraint(
            "accesstoken",
            models.UniqueConstraint(
                fields=["approval", "resource"], name="approval_makes_one_token_per_resource"
            ),
        ),
        migrations.RunSQL(DELETE_CLEAR_KEYS, migrations.RunSQL.noop),
    ]
