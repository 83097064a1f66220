"""A query in the words of every visible stream: its granted fields, its connections' languages."""

from collections.abc import Iterable, Iterator, Sequence

from evidence.access.matches import Branch, Terms
from evidence.access.rows import VisibleRecords
from evidence.access.visible import Sight
from evidence.analyser.queries import Query
from evidence.analyser.tsquery import score_terms, to_tsquery


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
