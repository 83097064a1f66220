"""The ledger knows when a client last read and how often; nothing else counts it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("evidence", "0012_imports")]

    operations = [migrations.DeleteModel("PackageUse")]
