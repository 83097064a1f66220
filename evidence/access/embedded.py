"""Which visible streams have vectors, and whether visible records still wait for theirs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evidence.access.rows import VisibleRecords
from evidence.access.statements import Fragment, fetched_by_one_plan, joined
from evidence.access.vectors import Meanings
from evidence.models.embedded import EmbeddedStream

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
