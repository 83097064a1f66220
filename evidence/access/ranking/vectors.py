"""The visible passages nearest to a vector: exact, over all of them, with nothing hidden among them.

Every field has vectors of its own and only those of granted fields are asked for, so a hidden text
can neither match nor rank. There is no approximate index: what such an index finds hangs on
everything it holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from evidence.access.records import VisibleRecords
from evidence.access.sql import Fragment, fetched_by_one_plan, joined
from evidence.models.connections import EmbeddedStream

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


Scoped = tuple[str, str]
"""(connection_id, stream)"""


class Reach(NamedTuple):
    """Vectors are complete up to the change ``seq``; ``head`` is the latest one of the connection.
    It may be one that the caller must not hear of."""

    seq: int
    head: int


def reaches(streams: Iterable[VisibleRecords], *, model_id: str) -> Mapping[Scoped, Reach]:
    """The streams of these that have vectors of the model; one query."""
    ids = {facts.connection_id for visible in streams for facts in visible.connections}
    rows = EmbeddedStream.unscoped.filter(connection_id__in=ids, model=model_id)
    columns = rows.values_list("connection_id", "stream", "seq", "connection__change_seq")
    return {
        (connection_id, stream): Reach(seq, head) for connection_id, stream, seq, head in columns
    }


def waiting(asked: Sequence[Meanings], known: Mapping[Scoped, Reach]) -> list[Scoped]:
    """Where a visible record has a granted text without vectors; no query where nothing changed.

    Only what is visible decides, whatever else has changed meanwhile.
    """
    parts = [
        _lacking(each, connection_id, group.condition, reach.seq)
        for each in asked
        for group in each.visible.groups
        for connection_id in group.connection_ids
        if (reach := known.get((connection_id, each.visible.stream.name))) is not None
        and reach.seq < reach.head
    ]
    if not parts:
        return []
    return sorted({(row[0], row[1]) for row in fetched_by_one_plan(joined(" UNION ALL ", parts))})


def _lacking(asked: Meanings, connection_id: str, condition: Fragment, seq: int) -> Fragment:
    stream = asked.visible.stream.name
    part = Fragment("(SELECT r.connection_id, r.stream FROM evidence_record r")
    part += Fragment(" WHERE r.connection_id = %s", (connection_id,)) + condition
    part += Fragment(
        " AND r.record_key IN (SELECT c.record_key FROM evidence_recordchange c"
        " WHERE c.connection_id = %s AND c.stream = %s AND c.seq > %s)",
        (connection_id, stream, seq),
    )
    part += Fragment(
        " AND EXISTS (SELECT FROM unnest(%s::text[]) AS f(field)"
        " WHERE jsonb_typeof(r.data->f.field) IN ('string', 'array') AND NOT EXISTS ("
        "SELECT FROM evidence_passage p WHERE p.connection_id = r.connection_id"
        " AND p.stream = r.stream AND p.record_key = r.record_key AND p.field = f.field))",
        (list(asked.fields),),
    )
    return part + Fragment(" LIMIT 1)")
