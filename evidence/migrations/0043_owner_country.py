"""Add the country of the owner."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0042_word_order")]

    operations = [
        migrations.AddField("owner", "country", models.TextField(default="", db_default="")),
        # The people of all records depend on it.
        migrations.RunSQL(
            "CREATE TRIGGER wake_jobs AFTER UPDATE OF country ON evidence_owner"
            " FOR EACH ROW EXECUTE FUNCTION evidence_wake_jobs()",
            "DROP TRIGGER wake_jobs ON evidence_owner",
        ),
    ]
