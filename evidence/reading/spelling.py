"""Other spellings of words that no visible text has, taken from visible texts alone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.matches import SCORED, Match, Matches, counted
from evidence.access.rows import VisibleRecords
from evidence.analyser.queries import Leaf, Or, Query
from evidence.analyser.spelling import (
    beginnings,
    can_be_respelt,
    is_respelt_run,
    nearest,
    neighbours,
    written_like,
    written_with,
)
from evidence.analyser.work import WorkLimit
from evidence.reading.branches import branches
from evidence.reading.hits import texts_of

Spellings = Mapping[str, Sequence[str]]
"""From a word of the query to what it may have been meant to be, the nearest first."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A visible record with a suggested word, and the fields that have it."""

    connection_id: str
    stream: str
    record_key: str
    fields: frozenset[str]


WORDS = 4
"""So many words of a query are looked into; each costs up to six statements."""
TEXTS_READ = 100
SPELLINGS_A_WORD = 3
WORK = 400_000
"""Units of work (`evidence.analyser.work`) for the suggestions of one search."""
WORK_A_TEXT = 20_000


def other_spellings(query: Query, searched: Sequence[VisibleRecords]) -> Spellings:
    """For the words without any visible hit. What is suggested was read in a granted field of a
    visible record, so whoever takes the suggestion finds that record."""
    leaves = [leaf for leaf in query.wanted() if can_be_respelt(leaf) or is_respelt_run(leaf)]
    missing = (
        leaf for leaf in leaves[:WORDS] if not counted(branches(Query(leaf), searched), most=0)
    )
    work = WorkLimit(WORK)
    found = {leaf.text: _spellings(leaf, searched, work) for leaf in missing}
    return {word: spellings for word, spellings in found.items() if spellings}


def _spellings(leaf: Leaf, searched: Sequence[VisibleRecords], work: WorkLimit) -> tuple[str, ...]:
    if is_respelt_run(leaf):
        return _like(leaf, searched, work)
    for begin in beginnings(leaf):
        near = nearest(leaf.text, _written(leaf, begin, searched, work), most=SPELLINGS_A_WORD)
        if near:
            return near
    return ()


def _written(
    leaf: Leaf, begin: tuple[str, ...], searched: Sequence[VisibleRecords], work: WorkLimit
) -> Iterator[str]:
    """The words that begin in one of these ways in the newest visible records that have any."""
    leaves = [Leaf(each, leaf.position, prefix=True) for each in begin]
    for match in _newest(leaves, searched):
        languages = match.record.connection.languages
        for _, text in texts_of(match):
            with work.share(most=WORK_A_TEXT) as part:
                yield from written_with(text, begin, languages=languages, work=part)


def _like(leaf: Leaf, searched: Sequence[VisibleRecords], work: WorkLimit) -> tuple[str, ...]:
    """The stretches of the newest visible records that are one character away, the most frequent
    first."""
    counts: Counter[str] = Counter()
    for match in _newest(neighbours(leaf), searched):
        for _, text in texts_of(match):
            with work.share(most=WORK_A_TEXT) as part:
                counts.update(written_like(text, leaf.text, work=part))
    order = sorted(counts, key=lambda stretch: (-counts[stretch], stretch))
    return tuple(order[:SPELLINGS_A_WORD])


def holders(
    spellings: Spellings, searched: Sequence[VisibleRecords]
) -> Mapping[str, Sequence[Holder]]:
    """Return the visible records that each suggested word discloses: its newest holder, or all
    holders where there are fewer than ``SMALL_GROUP``. Up to three queries a word."""
    words = dict.fromkeys(word for each in spellings.values() for word in each)
    return {word: found for word in words if (found := _holders(word, searched))}


def _holders(word: str, searched: Sequence[VisibleRecords]) -> Sequence[Holder]:
    found = [
        Holder(match.record.connection.connection_id, match.visible.stream.name, key, fields)
        for match in _newest([Leaf(word, 0)], searched)
        for key, fields in [(match.record.record_key, _fields_with(word, match))]
        if fields
    ]
    return found if len(found) < SMALL_GROUP else found[:1]


def _fields_with(word: str, match: Match) -> frozenset[str]:
    return frozenset(name for name, text in texts_of(match) if word in text.lower())


def _newest(leaves: Sequence[Leaf], searched: Sequence[VisibleRecords]) -> Sequence[Match]:
    """The newest visible records with any of the words."""
    query = Query(leaves[0] if len(leaves) == 1 else Or(tuple(leaves)))
    asked = branches(query, searched, scored=False)
    return Matches(asked, counted_to=SCORED, newest=True).page(limit=TEXTS_READ)
