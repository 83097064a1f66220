"""Which shards the statements of a request ask."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

SHARD = re.compile(r"\bevidence_[a-z]+(?:_p\d)?_(\d{6,})\b")
SHARD_OF_CONNECTION = """
SELECT shardminvalue FROM pg_dist_shard
WHERE shardid = get_shard_id_for_distribution_column('evidence_record', %s)
"""
SHARD_RANGES = "SELECT DISTINCT shardminvalue FROM pg_dist_shard WHERE shardid = ANY(%s)"
EXPLAINED = re.compile(r"\s*(?:--.*\n\s*)*(?:SELECT|WITH|INSERT|UPDATE|DELETE|\(SELECT)\b")


@contextmanager
def shards_of_statements() -> Iterator[dict[str, set[str]]]:
    """Collect the shards, as starts of their ranges, in the plan of each statement that has any."""
    found: dict[str, set[str]] = {}

    def explain(
        execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: dict[str, Any]
    ) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(None)
        if EXPLAINED.match(text) and not many:
            with connection.connection.cursor() as cursor:
                cursor.execute("SET LOCAL citus.explain_all_tasks = on")
            execute("EXPLAIN (VERBOSE, COSTS OFF) " + text, params, many, context)
            plan = "\n".join(
                line.decode() if isinstance(line, bytes) else line
                for (line,) in context["cursor"].fetchall()
            )
            if shards := {int(number) for number in SHARD.findall(plan)}:
                with connection.connection.cursor() as cursor:
                    cursor.execute(SHARD_RANGES, [list(shards)])
                    found[text] = {start for (start,) in cursor.fetchall()}
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield found


def shard_of(connection_id: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(SHARD_OF_CONNECTION, [connection_id])
        return str(cursor.fetchone()[0])
