"""Find which prefixes of words occur in visible records."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from evidence.access.ranking.matches import mark_few_visible
from evidence.access.ranking.scores import CompiledQuery, StreamQuery, rows_of_connections
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, fetch_prepared, union_all

COMMON_STARTS: Final = """
-- What the most common lexemes of all search texts begin with: owner's code, field code and tier.
-- No parameters.
SELECT DISTINCT substring(lexeme FROM '^[a-z0-9_]{3}[a-z]+[0-9]')
FROM pg_stats, unnest(most_common_elems::text::text[]) AS e(lexeme)
WHERE schemaname = current_schema AND tablename LIKE 'evidence_searchtext%' AND attname = 'terms'
"""


@dataclass(frozen=True, slots=True)
class CodedStream:
    """One stream with the field code and tier that begin the lexemes of its granted fields."""

    visible: VisibleRecords
    starts: tuple[str, ...]

    def matches(self, tsquery: SQL) -> list[SQL]:
        """Return one subquery per connection for the rows that match."""
        # A limit inside of the materialized matches would make the planner scan the table.
        return [
            SQL("(WITH m AS MATERIALIZED (SELECT")
            + rows
            + SQL(" AND r.terms @@ ")
            + tsquery
            + SQL(") SELECT 1 FROM m)")
            for group in self.visible.groups
            for rows in rows_of_connections(group, has_few_rows=False)
        ]


def occurring_prefixes(streams: Sequence[CodedStream], prefixes: Sequence[str]) -> Sequence[str]:
    """Return the prefixes that any visible record has; all of them for a grant of few records.

    One query, and one more for a grant that restricts times or records.
    """
    queries = [StreamQuery(stream.visible, CompiledQuery("", ())) for stream in streams]
    # Few records are read one by one, since the inverted index would also read hidden ones.
    if any(query.has_few_rows for query in mark_few_visible(queries)):
        return prefixes
    every = {start for stream in streams for start in stream.starts}
    known = _known_starts(current_hour())
    while True:
        # A start that no record has is looked up once, and not with each prefix. A common start must
        # not be looked up alone, because that would read most of the index.
        found, others = _find(streams, prefixes, known or every)
        if not others:
            return [prefixes[at] for at in sorted(found)]
        known |= others


def _find(
    streams: Sequence[CodedStream], prefixes: Sequence[str], starts: Collection[str]
) -> tuple[set[int], set[str]]:
    """Return the positions of the prefixes that occur after these starts, and all other starts
    that occur. One query."""
    known, parts = [], []
    for stream in streams:
        template = " | ".join(f"'{start}?':*" for start in stream.starts if start in starts)
        if template:
            known += stream.matches(SQL("replace(%s, '?', q.prefix)::tsquery", (template,)))
        rest = [f"'{start}':*" for start in stream.starts if start not in starts]
        if rest:
            each = SQL("SELECT NULL::int, q.start FROM unnest(%s::text[]) AS q(start)", (rest,))
            parts += [_any_of(each, [rows]) for rows in stream.matches(SQL("q.start::tsquery"))]
    if known:
        # One prefix after the other, because its first match ends the lookups.
        each = SQL("SELECT (q.at - 1)::int, NULL FROM unnest(%s::text[])", (list(prefixes),))
        each += SQL(" WITH ORDINALITY AS q(prefix, at)")
        parts.append(_any_of(each, known))
    found = fetch_prepared(union_all(parts)) if parts else ()
    return (
        {at for at, _ in found if at is not None},
        {start.strip("':*") for _, start in found if start is not None},
    )


def _any_of(each: SQL, matches: Sequence[SQL]) -> SQL:
    """Return the rows of ``each`` for which any of the subqueries has a row."""
    lateral = SQL(" CROSS JOIN LATERAL (SELECT 1 FROM (") + union_all(matches)
    return each + lateral + SQL(") m LIMIT 1) m")


def current_hour() -> int:
    """Return a number that changes each hour, after which the statistics are read again."""
    return int(time.monotonic() // 3_600)


@lru_cache(maxsize=1)
def _known_starts(_hour: int) -> set[str]:
    """Return the starts of the most common lexemes, for the caller to extend."""
    return {start for (start,) in fetch_prepared(SQL(COMMON_STARTS))}
