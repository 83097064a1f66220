"""Semantic search: the records whose best passages are nearest in meaning to the question."""

from collections.abc import Sequence

from evidence.access.ranking.matches import rows_of
from evidence.access.ranking.vectors import Key, Near, nearest, nearest_first, waiting
from evidence.errors import InvalidRequest
from evidence.search.analysis.query_tree import And, Leaf, Query
from evidence.search.query_planner import Meaning
from evidence.search.results import Found, Hit, Place, SearchRequest, near_hit


def search(query: Query, meaning: Meaning, request: SearchRequest) -> Found:
    """Three queries beyond the token's: how far the vectors have come, the nearest passages, the
    rows of a page. Every record with a passage near enough can be reached by cursor."""
    question = plain_words(query, quoted=True)
    if question is None:
        raise InvalidRequest(
            message="prefix*, OR, -not and field: ask for exact words, which a search by"
            " meaning cannot.",
            param="q",
            next_step="Ask in plain words, or search without mode.",
        )
    if request.newest_first:
        raise InvalidRequest(message="Only lexical search sorts by time.", param="sort")
    after, seen = _resumed(request.after)
    found = near_to(question, meaning, limit=request.limit + 1, after=after, seen=seen)
    hits = hits_of(meaning, found)
    shown = hits[: request.limit]

    def place(count: int) -> Place:
        last = nearest_first(shown[count - 1][0])
        return {"k": list(last), "z": seen + count}

    return Found(
        hits=[hit for _, hit in shown],
        has_more=len(found) > request.limit,
        place=place,
        lexical=False,
        waiting=waiting(meaning.asked, meaning.known),
    )


def plain_words(query: Query, *, quoted: bool) -> str | None:
    """The question as a text, with what is ``quoted`` in it or not; None where it asks for words in
    a way that meaning cannot answer."""
    leaves = query.root.nodes if isinstance(query.root, And) else (query.root,)
    words = [
        each.text
        for each in leaves
        if isinstance(each, Leaf) and not (each.prefix or each.field)
        if quoted or not each.phrase
    ]
    return " ".join(words) if len(words) == len(leaves) else None


def near_to(
    question: str, meaning: Meaning, *, limit: int, after: Key | None = None, seen: int = 0
) -> list[Near]:
    (vector,) = meaning.embedder.embed([question])
    floor = meaning.embedder.floor
    return nearest(meaning.asked, vector, floor=floor, limit=limit, after=after, seen=seen)


def hits_of(meaning: Meaning, found: Sequence[Near]) -> list[tuple[Near, Hit]]:
    """The hits of those whose records are still there; one query."""
    streams = [each.visible for each in meaning.asked]
    rows = rows_of(streams, found)
    return [
        (near, near_hit(streams[near.number], row, near))
        for near, row in zip(found, rows, strict=True)
        if row is not None
    ]


def _resumed(place: Place | None) -> tuple[Key | None, int]:
    if place is None:
        return None, 0
    points, connection_id, stream, record_key = place["k"]
    return (points, connection_id, stream, record_key), place["z"]
