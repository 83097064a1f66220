"""Find the passages nearest to a query vector by exact search over visible records.

Each field has its own vectors and the query names granted fields only, so a hidden text can neither
match nor rank. There is no approximate index, because its results depend on hidden rows too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, fetch_prepared, fill, join_sql, union_all
from evidence.models.connections import EmbeddedStream
from evidence.models.owners import current_owner

MILLIONTHS = 1_000_000
"""Similarity is compared in millionths, so that the order is the same on every machine."""
PASSAGES_PER_RECORD = 4
"""Number of nearest passages to fetch per requested record at first."""

NEAREST_PASSAGES: Final = """
-- The passages nearest to a vector, best first. Part: passages of connections. One query.
SELECT u.number, u.points, u.connection_id, u.stream, u.record_key, u.field,
    u.start_chars, u.end_chars
FROM ({passages}) u
WHERE u.points >= {floor}
ORDER BY u.points DESC, u.connection_id, u.stream, u.record_key, u.field, u.passage LIMIT {limit}
"""
PASSAGES: Final = """
SELECT {number}::int AS number, round((r.embedding <#> {vector}::halfvec) * -1000000)::int AS points,
    r.connection_id, r.stream, r.record_key, r.field, r.passage, r.start_chars, r.end_chars
FROM (
    SELECT owner_id, connection_id, stream, record_key, field, passage, start_chars, end_chars,
        embedding, authored_at AS consent_time
    FROM evidence_passage
) r
WHERE r.owner_id = {owner} AND r.connection_id = {connection}{terms}
    AND r.field = ANY({fields}) AND r.embedding IS NOT NULL
"""
"""The passages of the granted fields of one connection, with their similarity in millionths. Both vectors have
length one, so the inner product is the cosine similarity."""
STREAM_WITHOUT_VECTORS: Final = """
(SELECT r.connection_id, r.stream FROM evidence_record r
WHERE r.owner_id = {owner} AND r.connection_id = {connection}{terms}
    AND r.record_key IN (
        SELECT c.record_key FROM evidence_recordchange c
        WHERE c.owner_id = {owner} AND c.connection_id = {connection} AND c.stream = {stream}
            AND c.seq > {seq}
    )
    AND ({missing})
LIMIT 1)
"""
"""The stream of one connection, if a changed record that is visible lacks vectors of a granted field."""
MISSING_VECTORS: Final = """
(jsonb_typeof(r.data->{field}) IN ('string', 'array') AND NOT EXISTS (
    SELECT FROM evidence_passage p WHERE p.owner_id = r.owner_id
        AND p.connection_id = {connection} AND p.stream = r.stream
        AND p.record_key = r.record_key AND p.field = {field}
))
"""


@dataclass(frozen=True, slots=True)
class SemanticFields:
    """One stream with the semantic fields that the grants allow to search."""

    visible: VisibleRecords
    fields: tuple[str, ...]


class NearestPassage(NamedTuple):
    """The best passage of a record of the stream ``number``, in code points of its field."""

    number: int
    points: int
    connection_id: str
    stream: str
    record_key: str
    field: str
    start: int
    end: int


PassageSortKey: TypeAlias = tuple[int, str, str, str]


def nearest_first(passage: NearestPassage) -> PassageSortKey:
    return (-passage.points, passage.connection_id, passage.stream, passage.record_key)


def nearest_passages(
    streams: Sequence[SemanticFields],
    vector: Sequence[float],
    *,
    floor: float,
    limit: int,
    after: PassageSortKey | None = None,
    seen: int = 0,
) -> list[NearestPassage]:
    """Return the best passages of the first ``limit`` records after a sort key.

    ``seen`` is the number of records before ``after``. One query; more if a few records have many of
    the best passages.
    """
    if not streams or not any(vector):
        return []
    size = PASSAGES_PER_RECORD * (seen + limit)
    while True:
        passages = _fetch_passages(streams, vector, floor=floor, limit=size)
        page = [
            passage
            for passage in _best_per_record(passages)
            if after is None or nearest_first(passage) > after
        ][:limit]
        if len(page) == limit or len(passages) < size:
            return page
        size *= PASSAGES_PER_RECORD


def _fetch_passages(
    streams: Sequence[SemanticFields], vector: Sequence[float], *, floor: float, limit: int
) -> list[NearestPassage]:
    passages = union_all(
        fill(
            PASSAGES,
            number=number,
            vector=f"[{','.join(map(repr, vector))}]",
            owner=current_owner(),
            connection=connection_id,
            terms=group.condition,
            fields=list(stream.fields),
        )
        for number, stream in enumerate(streams)
        for group in stream.visible.groups
        for connection_id in group.connection_ids
    )
    statement = fill(
        NEAREST_PASSAGES, passages=passages, floor=round(floor * MILLIONTHS), limit=limit
    )
    return [NearestPassage(*row) for row in fetch_prepared(statement)]


def _best_per_record(passages: Sequence[NearestPassage]) -> list[NearestPassage]:
    best: dict[tuple[Any, ...], NearestPassage] = {}
    for passage in passages:
        best.setdefault((passage.connection_id, passage.stream, passage.record_key), passage)
    return list(best.values())


StreamKey = tuple[str, str]
"""(connection_id, stream)"""


class EmbeddingProgress(NamedTuple):
    """Vectors are complete up to change ``seq``; ``head`` is the connection's latest change.

    ``head`` includes changes that a grant hides, so never show it to a client.
    """

    seq: int
    head: int


def embedding_progress(
    streams: Iterable[VisibleRecords], *, model_id: str
) -> Mapping[StreamKey, EmbeddingProgress]:
    """Return the progress of those streams that have vectors of the model. One query."""
    ids = {facts.connection_id for visible in streams for facts in visible.connections}
    rows = EmbeddedStream.unscoped.filter(connection_id__in=ids, model=model_id)
    columns = rows.values_list("connection_id", "stream", "seq", "connection__change_seq")
    return {
        (connection_id, stream): EmbeddingProgress(seq, head)
        for connection_id, stream, seq, head in columns
    }


def streams_without_vectors(
    streams: Sequence[SemanticFields], progress_by_stream: Mapping[StreamKey, EmbeddingProgress]
) -> list[StreamKey]:
    """Return the streams in which a granted text of a visible record has no vectors yet.

    Depends on visible records only. One query, or none if nothing changed since the last vectors.
    """
    branches = [
        _missing_vectors(stream, connection_id, group.condition, progress.seq)
        for stream in streams
        for group in stream.visible.groups
        for connection_id in group.connection_ids
        if (progress := progress_by_stream.get((connection_id, stream.visible.stream.name)))
        is not None
        and progress.seq < progress.head
    ]
    if not branches:
        return []
    rows = fetch_prepared(union_all(branches))
    return sorted({(row[0], row[1]) for row in rows})


def _missing_vectors(stream: SemanticFields, connection_id: str, condition: SQL, seq: int) -> SQL:
    missing = (
        fill(MISSING_VECTORS, field=name, connection=connection_id) for name in stream.fields
    )
    return fill(
        STREAM_WITHOUT_VECTORS,
        owner=current_owner(),
        connection=connection_id,
        terms=condition,
        stream=stream.visible.stream.name,
        seq=seq,
        missing=join_sql(" OR ", missing),
    )
