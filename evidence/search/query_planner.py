"""Plan a query or a word filter: searchable fields, languages and modes of each visible stream."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evidence.access.granted_streams import GrantedStream
from evidence.access.ranking.matches import CompiledQuery, StreamQuery
from evidence.access.ranking.prefixes import CodedStream
from evidence.access.ranking.scores import matches_condition
from evidence.access.ranking.vectors import (
    EmbeddingProgress,
    SemanticFields,
    StreamKey,
    embedding_progress,
)
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.access.sql import SQL, in_time_range, join_sql
from evidence.declarations.storage_layout import in_code_order
from evidence.errors import InvalidRequest
from evidence.search.analysis import VERSION
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.pg_text_search import lexeme_starts, score_terms, to_tsquery
from evidence.search.analysis.phrase_pairs import AllOf, AnyOf, Condition, required_pairs
from evidence.search.analysis.query_parser import parse
from evidence.search.analysis.query_tree import Query, QueryError
from evidence.search.embedding import Embedder, configured_embedder
from evidence.search.query_dates import DatedQuery, find_date


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
    dated = find_date(query)
    return [
        plan
        for visible in searched
        for plan in _stream_queries(query, dated, visible, scored=scored)
    ]


def _stream_queries(
    query: Query, dated: DatedQuery | None, visible: VisibleRecords, *, scored: bool
) -> Iterator[StreamQuery]:
    """Yield one query per set of granted fields and set of languages, and per day if it has a date."""
    for group in group_by_grant_and_language(visible):
        codes = _field_codes(group)
        languages = group.connections[0].languages
        tsquery = to_tsquery(query, codes=codes, languages=languages)
        if tsquery is not None:
            words = score_terms(query, codes=codes, languages=languages) if scored else {}
            terms = CompiledQuery(tsquery, tuple(words), tuple(words.values()))
            if scored and not any(map(is_stale, group.connections)):
                terms = replace(terms, required=_required(query, group, codes))
            yield StreamQuery(group, terms)
            if dated is not None and group.shows(visible.stream.consent_time_field):
                yield from _queries_by_day(query, tsquery, dated, group, codes=codes)


def _queries_by_day(
    query: Query, tsquery: str, dated: DatedQuery, group: VisibleRecords, *, codes: dict[str, str]
) -> Iterator[StreamQuery]:
    """Yield one query for the records of each day that lack the words of its date.

    They score as if they had those words at the lowest tier.
    """
    languages = group.connections[0].languages
    if needs_verification(query, languages=languages):
        return
    matching = f"!({tsquery})"
    words: dict[tuple[str, ...], int] = {}
    if dated.rest is not None:
        rest = to_tsquery(dated.rest, codes=codes, languages=languages)
        if rest is None:
            return
        matching = f"({rest}) & {matching}"
        words.update(score_terms(dated.rest, codes=codes, languages=languages))
    words[(matching,)] = dated.words
    compiled = CompiledQuery(matching, tuple(words), tuple(words.values()))
    for period in dated.periods:
        of_day = group.filter([], period=[in_time_range("r.consent_time", period)])
        yield StreamQuery(of_day, compiled, has_few_rows=True)


def _required(query: Query, group: VisibleRecords, codes: Mapping[str, str]) -> SQL | None:
    """Return a condition on the order of words in the fields that the grant shows, if there is one."""
    pairs = required_pairs(query, languages=group.connections[0].languages)
    if pairs is None:
        return None
    in_order = in_code_order(group.layout["search"].values())
    fields = {name: in_order.index(code) + 1 for name, code in codes.items()}
    return SQL("(r.word_order IS NULL OR ") + _has_pairs(pairs, fields) + SQL(" IS TRUE)")


def _has_pairs(condition: Condition, fields: Mapping[str, int]) -> SQL:
    if isinstance(condition, AllOf | AnyOf):
        separator = " AND " if isinstance(condition, AllOf) else " OR "
        parts = [_has_pairs(each, fields) for each in condition.conditions]
        return SQL("(") + join_sql(separator, parts) + SQL(")")
    searched = [fields[name] for name in fields if condition.field in (None, name)]
    in_fields = [
        join_sql(" AND ", (_has_any(pair, number) for pair in condition.pairs))
        for number in searched
    ]
    return SQL("(") + join_sql(" OR ", in_fields or [SQL("false")]) + SQL(")")


def _has_any(alternatives: Sequence[bytes], number: int) -> SQL:
    """Return a condition that the order of words of a field contains any of the alternatives."""
    found = (
        SQL(f"position(%s::bytea IN r.word_order[{number:d}]) > 0", (pair,))
        for pair in alternatives
    )
    return SQL("(") + join_sql(" OR ", found) + SQL(")")


def coded_streams(searched: Sequence[VisibleRecords]) -> list[CodedStream]:
    """Return each stream with what the lexemes of its granted fields begin with."""
    return [
        CodedStream(group, lexeme_starts(codes))
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
        branches.append(matches_condition(group.connection_for, visible.stream.name, tsquery or ""))
    return SQL(" AND (") + join_sql(" OR ", branches) + SQL(")")
