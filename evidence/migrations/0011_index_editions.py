"""What the search text of a connection is made with, and how far making it anew has come."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

# Until now nothing but the first analyser has written search text.
INDEXED = "UPDATE evidence_connection SET indexed_languages = languages, indexed_analyser = 1"


class Migration(migrations.Migration):
    dependencies = [("evidence", "0010_terms_in_the_row")]

    operations = [
        migrations.AddField(
            model_name="connection",
            name="indexed_languages",
            field=ArrayField(
                models.TextField(),
                default=list,
                db_default=models.Value([], output_field=ArrayField(models.TextField())),
                editable=False,
            ),
        ),
        migrations.AddField(
            model_name="connection",
            name="indexed_analyser",
            field=models.SmallIntegerField(default=0, db_default=0, editable=False),
        ),
        migrations.AddField(
            model_name="connection",
            name="reindexing",
            field=models.JSONField(null=True, editable=False),
        ),
        migrations.RunSQL(INDEXED, migrations.RunSQL.noop),
    ]
