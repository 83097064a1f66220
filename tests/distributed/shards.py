"""Which shards the statements of a request ask."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from tests.owners import owned_tables

SHARD = re.compile(r"\b[a-z]+_[a-z]+_(\d{6,})\b")
SHARD_OF_OWNER = "SELECT get_shard_id_for_distribution_column('evidence_connection', %s)"
RANGES = """
-- The starts of the ranges of shards. Copies that every node has are no such shard.
SELECT DISTINCT shardminvalue FROM pg_dist_shard WHERE shardid = ANY(%s) AND shardminvalue IS NOT NULL
"""
EXPLAINED = re.compile(r"\s*(?:--.*\n\s*)*(?:SELECT|WITH|INSERT|UPDATE|DELETE|\(SELECT)\b")


@contextmanager
def shards_of_statements() -> Iterator[dict[str, set[str]]]:
    """Collect the shards, as starts of their ranges, in the plan of each statement on rows of owners."""
    statements: dict[str, Any] = {}
    found: dict[str, set[str]] = {}

    def remember(
        execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: dict[str, Any]
    ) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(None)
        if EXPLAINED.match(text) and not many and any(name in text for name in owned_tables()):
            statements.setdefault(text, params)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(remember):
        yield found
    _run("SET LOCAL citus.explain_all_tasks = on")
    for text, params in statements.items():
        if shards := ranges(int(number) for number in SHARD.findall(_plan(text, params))):
            found[text] = shards


def _plan(statement: str, values: Any) -> str:
    """Return the plan of a statement with its values as constants, since Citus explains some no other way."""
    if "$1" in statement:
        statement = re.sub(r"\$\d+", "%s", statement.replace("%", "%%"))
    with psycopg.ClientCursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {statement}".encode(), values or None)
        return "\n".join(line for (line,) in cursor)


def ranges(shards: Any) -> set[str]:
    return {start for (start,) in _run(RANGES, [list(shards)])}


def shard_of(owner_id: str) -> int:
    [(shard,)] = _run(SHARD_OF_OWNER, [owner_id])
    return int(shard)


def _run(statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """Run a statement that no wrapper sees."""
    with connection.connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []
