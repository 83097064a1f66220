"""Lexical search with proof: hits over all matches, each with the passages that made it one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.ranking.matches import SCORED, Branch, Match, Matches, Rank, counted
from evidence.access.records import VisibleRecords
from evidence.declarations.values import instant
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.query_relaxation import relax
from evidence.search.analysis.query_tree import Leaf, Or, Query
from evidence.search.analysis.spelling import (
    beginnings,
    can_be_respelt,
    is_respelt_run,
    nearest,
    neighbours,
    written_like,
    written_with,
)
from evidence.search.analysis.work_limit import WorkLimit
from evidence.search.query_planner import branches, languages_of, searchable_fields
from evidence.search.results import (
    Found,
    Hit,
    Holder,
    Judge,
    Place,
    SearchRequest,
    Spellings,
    texts_of,
)

"""From a word of the query to what it may have been meant to be, the nearest first."""


WORDS = 4
"""So many words of a query are looked into; each costs up to six statements."""
TEXTS_READ = 100
SPELLINGS_A_WORD = 3
WORK = 400_000
"""Units of work (`evidence.search.analysis.work_limit`) for the suggestions of one search."""
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


COUNTED_UP_TO = 10_000
CANDIDATES_READ = 2_000
"""How many rows a phrase may be looked for in; beyond them recall says that it is not complete."""
CANDIDATES_A_TIME = 200


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page begins and how long it is; ``any_word`` is what the first page settled on."""

    limit: int
    newest_first: bool = False
    after: Rank | None = None


def search(query: Query, visible: Sequence[VisibleRecords], request: SearchRequest) -> Found:
    """Three queries beyond the token's where few records match: their count, their places and the
    rows of a page; some more where very many do. More when no record has all the words: for other
    spellings, then the same again when any word will do; and further rows for a phrase."""
    named = request.streams is not None
    skipped = [each for each in visible if named and not searchable_fields(each)]
    searched = [each for each in visible if searchable_fields(each)]
    rank, settled = _resumed(request.after)
    page = Page(request.limit, request.newest_first, rank)
    found = settle(query, searched, page, settled=settled)
    return replace(found, skipped=skipped)


def settle(
    query: Query,
    searched: Sequence[VisibleRecords],
    page: Page,
    *,
    settled: Spellings | None = None,
) -> Found:
    """All words, or any of them where no record has all; ``settled`` says that any will do."""
    if settled is not None:
        found = _any_word(query, searched, page, spellings=settled)
        return _suggesting(found, settled, searched)
    found = _found(query, searched, page)
    if found.hits or page.after is not None:
        return found
    spellings = other_spellings(query, searched)
    if relax(query, languages=languages_of(searched)) != query:
        found = _any_word(query, searched, page, spellings=spellings)
    return _suggesting(found, spellings, searched)


def _suggesting(found: Found, spellings: Spellings, searched: Sequence[VisibleRecords]) -> Found:
    """The page with the suggestions that some visible record still has."""
    held = holders(spellings, searched)
    known = {
        word: [each for each in others if each in held]
        for word, others in spellings.items()
        if any(each in held for each in others)
    }
    return replace(
        found, suggestions=known, holders=[each for some in held.values() for each in some]
    )


def _any_word(
    query: Query, searched: Sequence[VisibleRecords], page: Page, *, spellings: Spellings
) -> Found:
    relaxed = relax(query, languages=languages_of(searched), spellings=spellings)
    found = _found(relaxed, searched, page)
    places = _places(found.hits, any_word=spellings)
    return replace(found, any_word=spellings, place=places)


def _found(query: Query, searched: Sequence[VisibleRecords], page: Page) -> Found:
    asked = branches(query, searched)
    from_text = needs_texts(query, asked)
    counted_to = SCORED if from_text else COUNTED_UP_TO
    matches = Matches(asked, counted_to=counted_to, newest=page.newest_first)
    hits, exhausted, complete = _verified(query, matches, page, from_text=from_text)
    if from_text:
        count, exact = _counted_hits(hits, page, exhausted=exhausted)
    else:
        count, exact = min(matches.count, counted_to), matches.count <= counted_to
    shown = hits[: page.limit]
    return Found(
        hits=shown,
        has_more=len(hits) > page.limit or not exhausted,
        place=_places(shown, any_word=None),
        count=count,
        lower_bound=not exact,
        complete=complete and (exhausted or len(hits) > page.limit),
    )


def _verified(
    query: Query, matches: Matches, page: Page, *, from_text: bool
) -> tuple[list[Hit], bool, bool]:
    """Up to ``limit`` + 1 hits; candidates without the phrase are passed over. The second value
    says whether as many candidates could be read as needed, the third whether all of their text."""
    wanted = page.limit + 1
    most = CANDIDATES_READ if from_text else wanted
    hits: list[Hit] = []
    judge = Judge(query)
    read = 0
    for batch in matches.batches(limit=most, after=page.after, size=CANDIDATES_A_TIME):
        hits.extend(hit for hit in map(judge.hit, batch) if hit is not None)
        read += len(batch)
        if len(hits) >= wanted:
            return hits, True, judge.complete
        if judge.exhausted:
            return hits, False, False
    return hits, read < most, judge.complete


def _counted_hits(hits: Sequence[Hit], page: Page, *, exhausted: bool) -> tuple[int, bool]:
    """Where texts must be read to know, all the hits at hand are counted, exactly when the first
    page holds them all."""
    first_page = page.after is None
    return len(hits), first_page and exhausted and len(hits) <= page.limit


def needs_texts(query: Query, asked: Sequence[Branch]) -> bool:
    """Whether some match can only be told from the text: a phrase, or one that is excluded."""
    return any(
        needs_verification(query, languages=branch.visible.connections[0].languages)
        for branch in asked
    )


# Where a page ended


def _places(hits: Sequence[Hit], *, any_word: Spellings | None) -> Any:
    def place(shown: int) -> Place:
        return {**place_of(hits[shown - 1]), "x": any_word}

    return place


def place_of(hit: Hit) -> Place:
    """The place of a hit that was found by its words."""
    rank = hit.rank
    if rank is None:
        raise TypeError("the hit has no place among the matches of words")
    at = None if rank.at is None else rank.at.isoformat()
    ids = {"c": rank.connection_id, "s": rank.stream, "r": rank.record_key}
    return {"n": rank.score, "t": at, **ids}


def rank_of(place: Mapping[str, Any]) -> Rank:
    return Rank(place["n"], instant(place["t"]), place["c"], place["s"], place["r"])


def _resumed(place: Place | None) -> tuple[Rank | None, Spellings | None]:
    return (None, None) if place is None else (rank_of(place), place["x"])
