"""What a large load leaves to be done, so that the next search does not pay for it."""

from django.db import connection

MANY_RECORDS = 5_000
"""From here on the planner's picture of the tables is worth renewing."""

CLEAN = """
SELECT gin_clean_pending_list(i.inhrelid::regclass)
FROM pg_inherits i WHERE i.inhparent = 'search_text_terms'::regclass
"""
TABLES = ("evidence_record", "evidence_recordchange", "evidence_searchtext")


def settle(*, written: int) -> None:
    """Merges pending search entries into the index; after a large load also renews statistics."""
    if not written:
        return
    with connection.cursor() as cursor:
        cursor.execute(CLEAN)
        if written >= MANY_RECORDS:
            for table in TABLES:
                cursor.execute(f"ANALYZE {table}")
