"""A query in the words of every visible stream: its granted fields, its connections' languages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evidence.access.granted_streams import Sight
from evidence.access.ranking.matches import Branch, Terms
from evidence.access.ranking.vectors import Meanings, Reach, Scoped, reaches
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.errors import InvalidRequest
from evidence.search.analysis import VERSION
from evidence.search.analysis.pg_text_search import score_terms, to_tsquery
from evidence.search.analysis.query_tree import Query
from evidence.search.embedding import Embedder, chosen


def is_stale(facts: ConnectionFacts) -> bool:
    """Return whether some search text was indexed with other languages or an older analyzer."""
    return facts.index_edition != (facts.languages, VERSION)


def searchable_fields(visible: VisibleRecords) -> list[str]:
    """The searchable fields that at least one grant of the stream shows."""
    return [
        name
        for name in visible.stream.lexical_fields
        if any(sight.terms.fields.allows(name) for sight in visible.sights)
    ]


def languages_of(visible: Sequence[VisibleRecords]) -> frozenset[str]:
    """Those of the connections that are searched: in one of them the question is asked."""
    return frozenset(
        language for each in visible for facts in each.connections for language in facts.languages
    )


def branches(
    query: Query, searched: Sequence[VisibleRecords], *, scored: bool = True
) -> list[Branch]:
    """The query for each stream in which it can match at all; where it does not matter how well,
    nothing is ``scored``."""
    return [branch for each in searched for branch in _branches(query, each, scored=scored)]


def _branches(query: Query, visible: VisibleRecords, *, scored: bool) -> Iterator[Branch]:
    """One for each set of granted fields and each set of languages."""
    for alone in alike(visible):
        codes = {
            name: alone.layout["search"][name]
            for name in alone.stream.lexical_fields
            if alone.shows(name)
        }
        languages = alone.connections[0].languages
        matching = to_tsquery(query, codes=codes, languages=languages)
        if matching is not None:
            tiers = score_terms(query, codes=codes, languages=languages) if scored else []
            yield Branch(alone, Terms(matching, tuple(map(tuple, tiers))))


def alike(visible: VisibleRecords) -> Iterable[VisibleRecords]:
    """The same rows, parted by what is granted and by the languages of the connections."""
    together: dict[tuple[object, ...], list[Sight]] = {}
    for sight in visible.sights:
        for facts in sight.connections:
            key = (sight.grant_id, facts.languages)
            together.setdefault(key, []).append(Sight(sight.grant_id, sight.terms, (facts,)))
    for sights in together.values():
        connections = tuple(each.connections[0] for each in sights)
        yield visible.through(Sight(sights[0].grant_id, sights[0].terms, connections))


LEXICAL: Final = "lexical"
SEMANTIC: Final = "semantic"
HYBRID: Final = "hybrid"
MODES: Final = (LEXICAL, SEMANTIC, HYBRID)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What can be searched by meaning: the model, the granted fields, and how far they have come."""

    embedder: Embedder
    asked: Sequence[Meanings]
    known: Mapping[Scoped, Reach]


def embedded(streams: Sequence[VisibleRecords]) -> Mapping[Scoped, Reach]:
    """How far the vectors of these streams have come; no query where there is no model."""
    embedder = chosen()
    return {} if embedder is None else reaches(streams, model_id=embedder.model_id)


def semantic_fields(visible: VisibleRecords) -> tuple[str, ...]:
    """The semantic fields that every grant concerned shows."""
    return tuple(
        name
        for name, field in visible.stream.fields.items()
        if field.semantic and visible.shows(name)
    )


def modes_of(visible: VisibleRecords, known: Mapping[Scoped, Reach]) -> tuple[str, ...]:
    """The modes that find something in a stream, in the order of ``MODES``."""
    by_words = bool(searchable_fields(visible))
    by_meaning = bool(semantic_fields(visible)) and has_vectors(visible, known)
    usable = {LEXICAL: by_words, SEMANTIC: by_meaning, HYBRID: by_words and by_meaning}
    return tuple(mode for mode in MODES if usable[mode])


def has_vectors(visible: VisibleRecords, known: Mapping[Scoped, Reach]) -> bool:
    name = visible.stream.name
    return any((facts.connection_id, name) in known for facts in visible.connections)


def meanings(streams: Sequence[VisibleRecords]) -> Meaning:
    """What of these streams can be searched by meaning; one query.

    Raises ``InvalidRequest`` where nothing can.
    """
    embedder = chosen()
    if embedder is not None:
        known = reaches(streams, model_id=embedder.model_id)
        asked = [
            Meanings(alone, fields)
            for each in streams
            if has_vectors(each, known)
            for alone in alike(each)
            if (fields := semantic_fields(alone))
        ]
        if asked:
            return Meaning(embedder, asked, known)
    raise InvalidRequest(
        message="Search by meaning is not available for what was asked.",
        param="mode",
        next_step="Search without mode, which is lexical; search_modes in GET /v1/schema says"
        " which streams have others.",
    )
