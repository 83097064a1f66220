"""Report what a search did not find: words without any match, and words that a hit has in other forms."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from evidence.access.ranking.matches import Matches
from evidence.access.records import VisibleRecords
from evidence.search.analysis.exact_words import is_written_in
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.query_tree import Leaf, Node, Not, Or, Query
from evidence.search.analysis.text_matches import find_matches
from evidence.search.analysis.work_limit import WorkLimit
from evidence.search.query_planner import plan_queries
from evidence.search.results import Hit, HitBuilder, Spellings, visible_texts

MAX_WORDS_CHECKED: Final = 8
"""Words of a query to look up; each costs one query."""
MAX_CANDIDATES_READ: Final = 200
"""Records in which an exact word or phrase is verified before its absence stays unknown."""
MAX_FORMS: Final = 3


def absent_leaves(query: Query, searched: Sequence[VisibleRecords]) -> Collection[Leaf]:
    """Return the words and phrases that no visible record matches, in query order."""
    leaves = dict.fromkeys(query.positive_leaves())
    return [leaf for leaf in list(leaves)[:MAX_WORDS_CHECKED] if _is_absent(leaf, searched)]


def has_alternatives(query: Query) -> bool:
    """Return whether a record can match without all of the words."""
    return _has_or(query.root)


def word_forms(
    hit: Hit, asked: Query, *, any_word: Spellings | None = None
) -> Mapping[str, Sequence[str]]:
    """Return the words of a query that the record does not contain as written, with its forms of them.

    Capital letters do not matter, except for exact words. A hit of `any_word` may lack a word
    altogether, which then has no forms.
    """
    if hit.query is None:
        return {}
    texts = dict(visible_texts(hit))
    leaves = [leaf for leaf in dict.fromkeys(asked.positive_leaves()) if not _occurs(leaf, texts)]
    if not leaves:
        return {}
    marked = [each.text[start:end] for each in hit.excerpts for start, end in each.passage.marks]
    forms = {
        leaf.text: _forms(leaf, marked, (any_word or {}).get(leaf.text, ()), hit)
        for leaf in leaves[:MAX_WORDS_CHECKED]
    }
    return {word: found for word, found in forms.items() if found or any_word is not None}


def _is_absent(leaf: Leaf, searched: Sequence[VisibleRecords]) -> bool:
    plans = plan_queries(Query(leaf), searched)
    if not any(
        needs_verification(Query(leaf), languages=plan.visible.connections[0].languages)
        for plan in plans
    ):
        return not Matches(plans, counted_to=0).count
    builder = HitBuilder(Query(leaf))
    matches = Matches(plans, counted_to=MAX_CANDIDATES_READ)
    candidates = matches.page(limit=MAX_CANDIDATES_READ + 1)
    if any(builder.to_hit(match) for match in candidates):
        return False
    return builder.complete and len(candidates) <= MAX_CANDIDATES_READ


def _has_or(node: Node) -> bool:
    if isinstance(node, Leaf | Not):
        return False
    return isinstance(node, Or) or any(map(_has_or, node.nodes))


def _occurs(leaf: Leaf, texts: Mapping[str, str]) -> bool:
    return any(
        is_written_in(leaf, text) for name, text in texts.items() if leaf.field in (None, name)
    )


def _forms(leaf: Leaf, marked: Sequence[str], spellings: Sequence[str], hit: Hit) -> list[str]:
    """Return the marked words that match the leaf or one of its other spellings."""
    leaves = [leaf, *(Leaf(spelling, leaf.position) for spelling in spellings)]
    languages = hit.record.connection.languages
    found = (
        word
        for word in dict.fromkeys(marked)
        if find_matches(word, leaves, languages=languages, around=0, work=WorkLimit())
    )
    return list(found)[:MAX_FORMS]
