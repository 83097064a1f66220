"""Chain a keyed digest of each disclosed record; its key, a nonce, is in the pseudonym's row."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evidence", "0023_single_use_grants")]

    operations = [
        # Rewrites the table: each pseudonym gets its own nonce.
        migrations.AddField("pseudonym", "nonce", models.UUIDField(db_default=RandomUUID())),
        # Rows from before have none, and their hashes stay as they are.
        migrations.AddField(
            "disclosure",
            "record_digests",
            ArrayField(models.BinaryField(), null=True),
        ),
    ]
