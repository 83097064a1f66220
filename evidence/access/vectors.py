"""The visible passages nearest to a vector: exact, over all of them, with nothing hidden among them.

Every field has vectors of its own and only those of granted fields are asked for, so a hidden text
can neither match nor rank. There is no approximate index: what such an index finds hangs on
everything it holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from evidence.access.rows import VisibleRecords
from evidence.access.statements import Fragment, fetched_by_one_plan, joined

MILLIONTHS = 1_000_000
"""Similarity is told and compared in these, so that the order is the same on every machine."""
PASSAGES_A_RECORD = 4
"""So many of the nearest passages are fetched for each record that is wanted, to begin with."""

PASSAGES = (
    "(SELECT connection_id, stream, record_key, field, passage, start_chars, end_chars, embedding,"
    " authored_at AS consent_time FROM evidence_passage) r"
)
# Both vectors have length one, so their product is the cosine.
POINTS = f"round((r.embedding <#> %s::halfvec) * -{MILLIONTHS})::int AS points"
ORDER = "u.points DESC, u.connection_id, u.stream, u.record_key, u.field, u.passage"


@dataclass(frozen=True, slots=True)
class Meanings:
    """One stream with those of its semantic fields that may be asked for."""

    visible: VisibleRecords
    fields: tuple[str, ...]


class Near(NamedTuple):
    """The best passage of a record of the stream ``number``, in code points of its field."""

    number: int
    points: int
    connection_id: str
    stream: str
    record_key: str
    field: str
    start: int
    end: int


Key: TypeAlias = tuple[int, str, str, str]


def nearest_first(near: Near) -> Key:
    return (-near.points, near.connection_id, near.stream, near.record_key)


def nearest(
    asked: Sequence[Meanings],
    vector: Sequence[float],
    *,
    floor: float,
    limit: int,
    after: Key | None = None,
    seen: int = 0,
) -> list[Near]:
    """The first ``limit`` records beyond ``after``, by their best passages.

    One query; more where single records have very many of the best passages. ``seen`` is how many
    records come before.
    """
    if not asked or not any(vector):
        return []
    size = PASSAGES_A_RECORD * (seen + limit)
    while True:
        rows = _passages(asked, vector, floor=floor, limit=size)
        best = _best_of_each(rows)
        found = [each for each in best if after is None or nearest_first(each) > after][:limit]
        if len(found) == limit or len(rows) < size:
            return found
        size *= PASSAGES_A_RECORD


def _passages(
    asked: Sequence[Meanings], vector: Sequence[float], *, floor: float, limit: int
) -> list[Near]:
    text = f"[{','.join(map(repr, vector))}]"
    parts = (part for number, each in enumerate(asked) for part in _parts(number, each, text))
    statement = Fragment(
        "SELECT u.number, u.points, u.connection_id, u.stream, u.record_key, u.field,"
        " u.start_chars, u.end_chars FROM ("
    )
    statement += joined(" UNION ALL ", parts)
    statement += Fragment(") u WHERE u.points >= %s", (round(floor * MILLIONTHS),))
    statement += Fragment(f" ORDER BY {ORDER} LIMIT %s", (limit,))
    return [Near(*row) for row in fetched_by_one_plan(statement)]


def _parts(number: int, asked: Meanings, vector: str) -> Iterator[Fragment]:
    """The granted fields of the visible records through each connection by itself."""
    for group in asked.visible.groups:
        for connection_id in group.connection_ids:
            part = Fragment(
                f"SELECT %s::int AS number, {POINTS}, r.connection_id, r.stream, r.record_key,"
                f" r.field, r.passage, r.start_chars, r.end_chars FROM {PASSAGES}"
                " WHERE r.connection_id = %s",
                (number, vector, connection_id),
            )
            part += group.condition
            part += Fragment(" AND r.field = ANY(%s)", (list(asked.fields),))
            yield part + Fragment(" AND r.embedding IS NOT NULL")


def _best_of_each(rows: Sequence[Near]) -> list[Near]:
    best: dict[tuple[Any, ...], Near] = {}
    for near in rows:
        best.setdefault((near.connection_id, near.stream, near.record_key), near)
    return list(best.values())
