"""Find the passages nearest to a query vector by exact search over visible records.

Each field has its own vectors and the query names granted fields only, so a hidden text can neither
match nor rank. There is no approximate index, because its results depend on hidden rows too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, fetch_prepared, owner_is, union_all
from evidence.models.connections import EmbeddedStream
from evidence.models.owners import current_owner

MILLIONTHS = 1_000_000
"""Similarity is compared in millionths, so that the order is the same on every machine."""
PASSAGES_PER_RECORD = 4
"""Number of nearest passages to fetch per requested record at first."""

PASSAGES = (
    "(SELECT owner_id, connection_id, stream, record_key, field, passage, start_chars, end_chars, embedding,"
    " authored_at AS consent_time FROM evidence_passage) r"
)
# Both vectors have length one, so the inner product is the cosine similarity.
POINTS = f"round((r.embedding <#> %s::halfvec) * -{MILLIONTHS})::int AS points"
PASSAGE_ORDER = "u.points DESC, u.connection_id, u.stream, u.record_key, u.field, u.passage"


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
    text = f"[{','.join(map(repr, vector))}]"
    branches = (
        branch
        for number, stream in enumerate(streams)
        for branch in _branches(number, stream, text)
    )
    statement = SQL(
        "SELECT u.number, u.points, u.connection_id, u.stream, u.record_key, u.field,"
        " u.start_chars, u.end_chars FROM ("
    )
    statement += union_all(branches)
    statement += SQL(") u WHERE u.points >= %s", (round(floor * MILLIONTHS),))
    statement += SQL(f" ORDER BY {PASSAGE_ORDER} LIMIT %s", (limit,))
    return [NearestPassage(*row) for row in fetch_prepared(statement)]


def _branches(number: int, stream: SemanticFields, vector: str) -> Iterator[SQL]:
    """Yield one subquery per connection over the granted fields of visible records."""
    for group in stream.visible.groups:
        for connection_id in group.connection_ids:
            branch = SQL(
                f"SELECT %s::int AS number, {POINTS}, r.connection_id, r.stream, r.record_key,"
                f" r.field, r.passage, r.start_chars, r.end_chars FROM {PASSAGES}"
                " WHERE r.owner_id = %s AND r.connection_id = %s",
                (number, vector, current_owner(), connection_id),
            )
            branch += group.condition
            branch += SQL(" AND r.field = ANY(%s)", (list(stream.fields),))
            yield branch + SQL(" AND r.embedding IS NOT NULL")


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
    branch = SQL("(SELECT r.connection_id, r.stream FROM evidence_record r")
    branch += (
        SQL(" WHERE ") + owner_is() + SQL("r.connection_id = %s", (connection_id,)) + condition
    )
    branch += SQL(
        " AND r.record_key IN (SELECT c.record_key FROM evidence_recordchange c"
        " WHERE c.owner_id = %s AND c.connection_id = %s AND c.stream = %s AND c.seq > %s)",
        (current_owner(), connection_id, stream.visible.stream.name, seq),
    )
    branch += SQL(
        " AND EXISTS (SELECT FROM unnest(%s::text[]) AS f(field)"
        " WHERE jsonb_typeof(r.data->f.field) IN ('string', 'array') AND NOT EXISTS ("
        "SELECT FROM evidence_passage p WHERE p.owner_id = r.owner_id AND p.connection_id = %s"
        " AND p.stream = r.stream AND p.record_key = r.record_key AND p.field = f.field))",
        (list(stream.fields), connection_id),
    )
    return branch + SQL(" LIMIT 1)")
