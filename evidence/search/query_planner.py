"""Plan a query or a word filter: searchable fields, languages and modes of each visible stream."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evidence.access.granted_streams import GrantedStream
from evidence.access.ranking.matches import CompiledQuery, StreamQuery
from evidence.access.ranking.scores import matches_condition
from evidence.access.ranking.vectors import (
    EmbeddingProgress,
    SemanticFields,
    StreamKey,
    embedding_progress,
)
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.access.sql import SQL, join_sql
from evidence.errors import InvalidRequest
from evidence.search.analysis import VERSION
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.pg_text_search import any_prefix_tsquery, score_terms, to_tsquery
from evidence.search.analysis.query_parser import parse
from evidence.search.analysis.query_tree import Query, QueryError
from evidence.search.embedding import Embedder, configured_embedder


def is_stale(facts: ConnectionFacts) -> bool:
    """Return whether some search text was indexed with other languages or an older analyzer."""
    return facts.index_edition != (facts.languages, VERSION)


def searchable_fields(visible: VisibleRecords) -> list[str]:
    """Return the searchable fields that at least one grant of the stream shows."""
    return [
        name
        for name in visible.stream.lexical_fields
        if any(granted.terms.fields.allows(name) for granted in visible.granted)
    ]


def query_languages(visible: Sequence[VisibleRecords]) -> frozenset[str]:
    """Return the languages of the searched connections; the query is in one of them."""
    return frozenset(
        language
        for stream in visible
        for facts in stream.connections
        for language in facts.languages
    )


def plan_queries(
    query: Query, searched: Sequence[VisibleRecords], *, scored: bool = True
) -> list[StreamQuery]:
    """Compile the query for each stream in which it can match; unscored plans omit score terms."""
    return [plan for visible in searched for plan in _stream_queries(query, visible, scored=scored)]


def _stream_queries(
    query: Query, visible: VisibleRecords, *, scored: bool
) -> Iterator[StreamQuery]:
    """Yield one query per set of granted fields and set of languages."""
    for group in group_by_grant_and_language(visible):
        codes = _field_codes(group)
        languages = group.connections[0].languages
        tsquery = to_tsquery(query, codes=codes, languages=languages)
        if tsquery is not None:
            words = score_terms(query, codes=codes, languages=languages) if scored else {}
            yield StreamQuery(group, CompiledQuery(tsquery, tuple(words), tuple(words.values())))


def plan_prefixes(
    alternatives: Sequence[Sequence[str]], searched: Sequence[VisibleRecords]
) -> list[list[StreamQuery]]:
    """Return for each stream one unscored query per alternative, for words with any of its prefixes."""
    return [
        [
            StreamQuery(group, CompiledQuery(any_prefix_tsquery(prefixes, codes=codes), ()))
            for prefixes in alternatives
        ]
        for visible in searched
        for group in group_by_grant_and_language(visible)
        if (codes := _field_codes(group))
    ]


def _field_codes(visible: VisibleRecords) -> dict[str, str]:
    """Return the code of each searchable field that the grant shows."""
    layout = visible.layout["search"]
    return {name: layout[name] for name in visible.stream.lexical_fields if visible.shows(name)}


def group_by_grant_and_language(visible: VisibleRecords) -> Iterable[VisibleRecords]:
    """Yield the visible rows in groups of one grant and one set of connection languages."""
    groups: dict[tuple[object, ...], list[GrantedStream]] = {}
    for granted in visible.granted:
        for facts in granted.connections:
            single = GrantedStream(granted.grant_id, granted.terms, (facts,))
            groups.setdefault((granted.grant_id, facts.languages), []).append(single)
    for group in groups.values():
        connections = tuple(granted.connections[0] for granted in group)
        yield visible.restricted_to(GrantedStream(group[0].grant_id, group[0].terms, connections))


LEXICAL: Final = "lexical"
SEMANTIC: Final = "semantic"
HYBRID: Final = "hybrid"
MODES: Final = (LEXICAL, SEMANTIC, HYBRID)


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


def words_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field has the words of a search query, without phrases."""
    field = visible.filter_field(name, param=param)
    if not field.lexical:
        searchable = filter(visible.can_filter_by, visible.stream.lexical_fields)
        searched = ", ".join(searchable) or "none"
        raise InvalidRequest(
            message=f"words needs a searchable field: {searched}. Use contains for {name!r}.",
            param=param,
        )
    try:
        query = parse(text)
    except QueryError as error:
        raise InvalidRequest(message=error.message, param=param, reason=error.code) from error
    branches = []
    for group in group_by_grant_and_language(visible):
        languages = group.connections[0].languages
        if needs_verification(query, languages=languages):
            raise InvalidRequest(
                message="words takes words, prefix* and OR; contains takes a phrase.", param=param
            )
        codes = {name: group.layout["search"][name]}
        tsquery = to_tsquery(query, codes=codes, languages=languages)
        ids = [facts.connection_id for facts in group.connections]
        branches.append(matches_condition(ids, visible.stream.name, tsquery or ""))
    return SQL(" AND (") + join_sql(" OR ", branches) + SQL(")")
