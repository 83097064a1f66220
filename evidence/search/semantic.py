"""Run semantic search: records whose best passage is nearest to the query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from evidence.access.ranking.matches import load_records
from evidence.access.ranking.vectors import (
    EmbeddingProgress,
    NearestPassage,
    PassageSortKey,
    SemanticFields,
    StreamKey,
    embedding_progress,
    nearest_first,
    nearest_passages,
    streams_without_vectors,
)
from evidence.access.records import VisibleRecords
from evidence.errors import InvalidRequest
from evidence.parameters import SearchMode
from evidence.search.analysis.query import And, Leaf, Query
from evidence.search.embedding import Embedder, configured_embedder
from evidence.search.query_planner import group_by_grant_and_language, searchable_fields
from evidence.search.results import CursorState, Hit, SearchRequest, SearchResult

LEXICAL: Final = "lexical"
SEMANTIC: Final = "semantic"
HYBRID: Final = "hybrid"
MODES: Final = get_args(SearchMode)


@dataclass(frozen=True, slots=True)
class SemanticSearchScope:
    """The model, the streams with granted semantic fields, and the embedding progress of each."""

    embedder: Embedder
    streams: Sequence[SemanticFields]
    progress: Mapping[StreamKey, EmbeddingProgress]


def vector_progress(streams: Sequence[VisibleRecords]) -> Mapping[StreamKey, EmbeddingProgress]:
    """Return the embedding progress of the streams. Runs no query if there is no model."""
    embedder = configured_embedder()
    return {} if embedder is None else embedding_progress(streams, model_id=embedder.model_id)


def semantic_fields(visible: VisibleRecords) -> tuple[str, ...]:
    """Return the semantic fields that every grant of the stream shows."""
    return tuple(
        name
        for name, field in visible.stream.fields.items()
        if field.semantic and visible.shows(name)
    )


def search_modes(
    visible: VisibleRecords, progress: Mapping[StreamKey, EmbeddingProgress]
) -> tuple[str, ...]:
    """Return the modes that can find records of a stream, in the order of ``MODES``."""
    lexical = bool(searchable_fields(visible))
    semantic = bool(semantic_fields(visible)) and has_vectors(visible, progress)
    usable = {LEXICAL: lexical, SEMANTIC: semantic, HYBRID: lexical and semantic}
    return tuple(mode for mode in MODES if usable[mode])


def has_vectors(visible: VisibleRecords, progress: Mapping[StreamKey, EmbeddingProgress]) -> bool:
    """Return whether any connection of the stream has embeddings."""
    name = visible.stream.name
    return any((facts.connection_id, name) in progress for facts in visible.connections)


def semantic_scope(streams: Sequence[VisibleRecords]) -> SemanticSearchScope:
    """Return the semantic fields of the streams that have embeddings, in one query.

    Raises InvalidRequest if there are none.
    """
    embedder = configured_embedder()
    if embedder is not None:
        progress = embedding_progress(streams, model_id=embedder.model_id)
        streams_with_vectors = [
            SemanticFields(group, fields)
            for visible in streams
            if has_vectors(visible, progress)
            for group in group_by_grant_and_language(visible)
            if (fields := semantic_fields(group))
        ]
        if streams_with_vectors:
            return SemanticSearchScope(embedder, streams_with_vectors, progress)
    raise InvalidRequest(
        message="Semantic search is not available for these streams.",
        param="mode",
        next_step="Omit mode for lexical search; GET /v1/schema lists search_modes per stream.",
    )


def search(query: Query, scope: SemanticSearchScope, request: SearchRequest) -> SearchResult:
    """Return one page of hits; cursors reach every record with a passage near enough.

    Runs three queries after authentication: embedding progress, nearest passages, records. Raises
    InvalidRequest if the query has operators.
    """
    question = plain_words(query, quoted=True)
    if question is None:
        raise InvalidRequest(
            message="Semantic search does not support prefix*, OR, -not, field: and exact words.",
            param="q",
            next_step="Use plain words, or omit mode for lexical search.",
        )
    if request.newest_first:
        raise InvalidRequest(message="sort requires lexical search; omit mode.", param="sort")
    after, seen = _decode_cursor(request.after)
    passages = find_nearest(question, scope, limit=request.limit + 1, after=after, seen=seen)
    hits = load_hits(scope, passages)
    page = hits[: request.limit]

    def cursor_state(count: int) -> CursorState:
        last = nearest_first(page[count - 1][0])
        return {"k": list(last), "z": seen + count}

    return SearchResult(
        hits=[hit for _, hit in page],
        has_more=len(passages) > request.limit,
        cursor_state=cursor_state,
        lexical=False,
        waiting=streams_without_vectors(scope.streams, scope.progress),
    )


def plain_words(query: Query, *, quoted: bool) -> str | None:
    """Return the query as plain text, or None if it has operators.

    Quoted phrases are part of the text if ``quoted``, and count as operators otherwise.
    """
    leaves = query.root.nodes if isinstance(query.root, And) else (query.root,)
    words = [
        leaf.text
        for leaf in leaves
        if isinstance(leaf, Leaf) and not (leaf.prefix or leaf.field or leaf.exact)
        if quoted or not leaf.phrase
    ]
    return " ".join(words) if len(words) == len(leaves) else None


def find_nearest(
    question: str,
    scope: SemanticSearchScope,
    *,
    limit: int,
    after: PassageSortKey | None = None,
    seen: int = 0,
) -> list[NearestPassage]:
    vector = scope.embedder.embed_query(question)
    floor = scope.embedder.floor
    return nearest_passages(scope.streams, vector, floor=floor, limit=limit, after=after, seen=seen)


def load_hits(
    scope: SemanticSearchScope, passages: Sequence[NearestPassage]
) -> list[tuple[NearestPassage, Hit]]:
    """Return the hits of passages whose records still exist; one query."""
    streams = [fields.visible for fields in scope.streams]
    records = load_records(streams, passages)
    return [
        (passage, Hit(streams[passage.number], record, near=passage))
        for passage, record in zip(passages, records, strict=True)
        if record is not None
    ]


def _decode_cursor(state: CursorState | None) -> tuple[PassageSortKey | None, int]:
    if state is None:
        return None, 0
    points, connection_id, stream, record_key = state["k"]
    return (points, connection_id, stream, record_key), state["z"]
