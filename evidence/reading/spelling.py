"""Other spellings of words that no visible text has, taken from visible texts alone."""

from collections.abc import Iterator, Mapping, Sequence

from evidence.access.matches import SCORED, Matches, counted
from evidence.access.rows import VisibleRecords
from evidence.analyser.queries import Leaf, Query
from evidence.analyser.spelling import beginnings, can_be_respelt, nearest, written_with
from evidence.reading.branches import branches
from evidence.reading.hits import texts_of

Spellings = Mapping[str, Sequence[str]]
"""From a word of the query to what it may have been meant to be, the nearest first."""

WORDS = 4
"""So many words of a query are looked into; each costs up to four statements."""
TEXTS_READ = 100
SPELLINGS_A_WORD = 3


def other_spellings(query: Query, searched: Sequence[VisibleRecords]) -> Spellings:
    """For the words without any visible hit. What is suggested was read in a granted field of a
    visible record, so whoever takes the suggestion finds that record."""
    leaves = [leaf for leaf in query.wanted() if can_be_respelt(leaf)][:WORDS]
    missing = (leaf for leaf in leaves if not counted(branches(Query(leaf), searched), most=0))
    found = {leaf.text: _spellings(leaf, searched) for leaf in missing}
    return {word: spellings for word, spellings in found.items() if spellings}


def _spellings(leaf: Leaf, searched: Sequence[VisibleRecords]) -> tuple[str, ...]:
    for beginning in beginnings(leaf):
        near = nearest(leaf.text, _written(beginning, searched), most=SPELLINGS_A_WORD)
        if near:
            return near
    return ()


def _written(beginning: Leaf, searched: Sequence[VisibleRecords]) -> Iterator[str]:
    """The words that begin so in the newest visible records that have any."""
    asked = branches(Query(beginning), searched)
    for match in Matches(asked, counted_to=SCORED, newest=True).page(limit=TEXTS_READ):
        languages = match.record.connection.languages
        for _, text in texts_of(match):
            yield from written_with(text, beginning.text, languages=languages)
