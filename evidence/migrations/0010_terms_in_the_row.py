"""Keep terms beside their row: to fetch those of a mail from elsewhere costs more than to compare
them. Rows that are there already stay as they are until they are written again."""

from django.db import migrations

PARTITIONS = 8
LARGEST_ROW_BYTES = 8160

SET = "ALTER TABLE evidence_searchtext_p{} SET (toast_tuple_target = {});"
RESET = "ALTER TABLE evidence_searchtext_p{} RESET (toast_tuple_target);"


class Migration(migrations.Migration):
    dependencies = [("evidence", "0009_pauses_and_use")]

    operations = [
        migrations.RunSQL(
            "\n".join(SET.format(number, LARGEST_ROW_BYTES) for number in range(PARTITIONS)),
            "\n".join(RESET.format(number) for number in range(PARTITIONS)),
        )
    ]
