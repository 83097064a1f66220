"""Filter records by words in one field, through the search index."""

from evidence.access.ranking.scores import matches_condition
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, join_sql
from evidence.errors import InvalidRequest
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.pg_text_search import to_tsquery
from evidence.search.analysis.query_parser import parse
from evidence.search.analysis.query_tree import QueryError
from evidence.search.query_planner import group_by_grant_and_language


def words_filter(visible: VisibleRecords, name: str, text: str, *, param: str) -> SQL:
    """Return a condition that a field has the words of a search query, without phrases."""
    field = visible.filter_field(name, param=param)
    if not field.lexical:
        searched = ", ".join(visible.stream.lexical_fields) or "none"
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
