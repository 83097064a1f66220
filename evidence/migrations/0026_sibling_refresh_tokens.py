"""Let a family have several current refresh tokens: siblings of ten seconds."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("evidence", "0025_token_approvals")]

    operations = [
        migrations.RemoveConstraint("refreshtoken", "one_refresh_token_at_a_time"),
    ]
