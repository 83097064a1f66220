"""Plan a query: the searchable fields and languages of each visible stream, and the date of a query."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from django.utils import timezone
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import trans_real

from evidence.access.ranking.matches import CodedStream
from evidence.access.ranking.scores import CompiledQuery, StreamQuery
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts, GrantedStream, TimeRange
from evidence.access.sql import SQL, in_time_range, join_sql
from evidence.declarations.storage_layout import in_code_order, owner_code
from evidence.models.owners import current_owner
from evidence.search.analysis import VERSION
from evidence.search.analysis.matcher import needs_verification
from evidence.search.analysis.query import And, Leaf, Node, Query
from evidence.search.analysis.segmentation import fold, normalize_date, strip_marks
from evidence.search.analysis.tsquery import (
    AllOf,
    AnyOf,
    Condition,
    lexeme_starts,
    required_pairs,
    score_terms,
    to_tsquery,
)

DATE_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")


@dataclass(frozen=True, slots=True)
class DatedQuery:
    """The days that the date of a query can mean, its number of words, and the other words, if any."""

    days: tuple[date, ...]
    words: int
    rest: Query | None

    @property
    def periods(self) -> list[TimeRange]:
        """Return each day in the current time zone."""
        starts = [timezone.make_aware(datetime.combine(day, time())) for day in self.days]
        return [TimeRange(since=start, until=start + timedelta(days=1)) for start in starts]


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
        codes = lexeme_codes(group)
        languages = group.connections[0].languages
        tsquery = to_tsquery(query, codes=codes, languages=languages)
        if tsquery is not None:
            words = score_terms(query, codes=codes, languages=languages) if scored else {}
            terms = CompiledQuery(tsquery, tuple(words), tuple(words.values()))
            if scored and not any(map(is_stale, group.connections)):
                terms = replace(terms, required=_required(query, group))
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


def _required(query: Query, group: VisibleRecords) -> SQL | None:
    """Return a condition on the order of words in the fields that the grant shows, if there is one."""
    pairs = required_pairs(query, languages=group.connections[0].languages)
    if pairs is None:
        return None
    in_order = in_code_order(group.layout["search"].values())
    fields = {name: in_order.index(code) + 1 for name, code in _field_codes(group).items()}
    return _has_pairs(pairs, fields) + SQL(" IS TRUE")


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
        if (codes := lexeme_codes(group))
    ]


def lexeme_codes(visible: VisibleRecords) -> dict[str, str]:
    """Return what the lexemes of each searchable field that the grant shows begin with."""
    owner = owner_code(current_owner())
    return {name: owner + code for name, code in _field_codes(visible).items()}


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


def find_date(query: Query) -> DatedQuery | None:
    """Return the date of a query of words that must all match, None if it has no full date."""
    nodes = query.root.nodes if isinstance(query.root, And) else (query.root,)
    words = [_word(node) if isinstance(node, Leaf) else "" for node in nodes]
    for at, word in enumerate(words):
        if days := _valid(normalize_date(word)):
            return _dated(nodes, at, at + 1, days)
    text = " ".join(words)
    for pattern in _patterns():
        if match := pattern.search(text):
            month = _months()[match["month"]]
            days = _valid((f"{match['year']}-{month:02}-{int(match['day']):02}",))
            first = text.count(" ", 0, match.start())
            if days:
                return _dated(nodes, first, first + match.group().count(" ") + 1, days)
    return None


def _dated(nodes: tuple[Node, ...], start: int, end: int, days: tuple[date, ...]) -> DatedQuery:
    rest = (*nodes[:start], *nodes[end:])
    return DatedQuery(days, end - start, Query(And(rest)) if rest else None)


def _word(leaf: Leaf) -> str:
    """Return a plain word without punctuation around it, empty for any other leaf."""
    if leaf.phrase or leaf.prefix or leaf.field or leaf.exact or " " in leaf.text:
        return ""
    return strip_marks(fold(leaf.text)).strip(".,;")


def _valid(candidates: tuple[str, ...]) -> tuple[date, ...]:
    days = []
    for written in candidates:
        try:
            days.append(date.fromisoformat(written))
        except ValueError:
            continue
    return tuple(days)


@lru_cache(maxsize=1)
def _months() -> dict[str, int]:
    return {name: number for number, name in _names(MONTHS)}


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns "[weekday] 15 March 2024" and "[weekday] March 15 2024"."""
    weekday = f"(?:(?:{'|'.join(name for _, name in _names(WEEKDAYS))}) (?:den |le )?)?"
    month, year = f"(?P<month>{'|'.join(_months())})", "(?:del? )?(?P<year>[12][0-9]{3})"
    day = "(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|er)?"
    orders = (f"{day} (?:de |of )?{month} {year}", f"{month} {day} {year}")
    return tuple(re.compile(rf"(?<!\S){weekday}{order}(?!\S)") for order in orders)


def _names(names: Mapping[int, object]) -> list[tuple[int, str]]:
    """Return the names in all languages, from Django's catalogs, which this site shows in none."""
    return [
        (number, strip_marks(fold(catalog.gettext(str(name)))))
        for catalog in map(trans_real.translation, DATE_LANGUAGES)
        for number, name in names.items()
    ]
