"""Which modes of search there are: what this installation has, and what a token may use of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evidence.access.embedded import Reach, Scoped, reaches
from evidence.access.rows import VisibleRecords
from evidence.access.vectors import Meanings
from evidence.embedding.embedder import Embedder, chosen
from evidence.reading.branches import alike, searchable_fields
from evidence.refusals import InvalidRequest

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
