"""`GET /v1/search` with its semantic and hybrid routes: hits, excerpts, ranking and recall (contract 3.9)."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from rest_framework.request import Request
from typing_extensions import override

from evidence.access import crypto
from evidence.access.ranking.vectors import MILLIONTHS
from evidence.access.records import VisibleRecords
from evidence.api import envelopes
from evidence.api.base_views import (
    Answer,
    ApiWarning,
    Described,
    GrantedView,
    page_limit,
    unmatched_warnings,
)
from evidence.api.envelopes import (
    actor_place_and_amount,
    connection_members,
    field_window_link,
    format_time,
    record_origin,
    record_path,
    role_fields,
    title_and_time,
)
from evidence.errors import InvalidRequest, SearchModeUnavailable
from evidence.item_lines import item_title
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import Size, grapheme_ceil
from evidence.parameters import Search, SearchInMode
from evidence.read import filters
from evidence.read.filters import parameter_name
from evidence.read.search import search
from evidence.search.analysis.highlighter import (
    Passage,
    excerpt_text,
    excerpt_with_marks,
    word_start,
)
from evidence.search.results import Excerpt, Hit, SearchRequest, SearchResult, are_cut, word_forms
from evidence.search.semantic import HYBRID, LEXICAL, SEMANTIC


class SearchView(GrantedView):
    """Search records by words, with excerpts that show the matches."""

    route = "search"
    described: ClassVar = {"GET": Described("SearchHits")}
    charges_all_grants = True
    parameters: ClassVar[type[SearchInMode]] = Search
    query: SearchInMode
    matched: Sequence[tuple[str, str, str]] = ()
    """A record for each filter of an empty result that some record meets."""

    @property
    def mode(self) -> str:
        return (isinstance(self.query, Search) and self.query.mode) or LEXICAL

    def get(self, request: Request) -> Answer:
        found = search(self.gate, self._search_request())
        if not found.hits and self.query.filter is not None:
            self._warn_of_filters()
        form = envelopes.parse_list_form(self.query)
        data = self._hit_bodies(found, form)
        page = envelopes.fit_items(data, form, self._envelope_size(found, form))
        shown = page.items
        has_more = bool(shown) and (found.has_more or len(shown) < len(data))
        body: dict[str, Any] = {
            "object": "list",
            "url": request.path,
            "has_more": has_more,
            **page.shared,
            "data": shown,
        }
        next_link = None
        if has_more:
            body["next_cursor"] = crypto.encode_cursor(
                "search",
                scope=self.scope,
                query=self._query(),
                place=found.cursor_state(len(shown)),
            )
            next_link = self.link(cursor=body["next_cursor"])
        response_body = envelopes.with_links_and_meta(
            body,
            self_link=self.url,
            next_link=next_link,
            links=not form.compact,
            warnings=[*self.warnings, *skipped_stream_warnings(found)],
        )
        response_body["meta"] |= self._meta(found) | page.meta
        if found.any_word is not None:  # said before the hits
            response_body = {"meta": response_body.pop("meta"), **response_body}
        return Answer(response_body, self._disclosed(found, shown))

    def _meta(self, found: SearchResult) -> dict[str, Any]:
        searched = searched_within(self.query)
        return search_meta(found, mode=self.mode, searched=searched)

    def _hit_bodies(self, found: SearchResult, form: envelopes.ListForm) -> list[dict[str, Any]]:
        return [
            (compact_hit_body(hit) if form.compact else hit_body(hit, mode=self.mode))
            | word_forms_body(hit, found)
            for hit in found.hits
        ]

    def _disclosed(
        self, found: SearchResult, bodies: Sequence[dict[str, Any]]
    ) -> list[DisclosedItem]:
        """Return the shown hits, or the streams that have none, and the records of suggested words."""
        fields = self._filter_fields()
        shown = [
            DisclosedItem(*hit.key, shown_fields(hit, body) | fields)
            for hit, body in zip(found.hits, bodies, strict=False)
        ]
        if not shown:
            for searched in self._searched():
                shown += envelopes.stream_items(searched, fields=fields)
        shown += [
            DisclosedItem(one, self._filtered().stream.name, key, frozenset({field}))
            for one, key, field in self.matched
        ]
        suggested = (
            DisclosedItem(each.connection_id, each.stream, each.record_key, each.fields)
            for each in found.holders
        )
        return [*shown, *suggested]

    def _filter_fields(self) -> frozenset[str]:
        return (
            self.filter_fields(self._filtered()) if self.query.filter is not None else frozenset()
        )

    def _warn_of_filters(self) -> None:
        checked = filters.find_unmatched(self._filtered(), self.query.filter or (), is_empty=True)
        self.warnings += unmatched_warnings(checked.unmatched)
        self.matched = checked.witnesses

    def _searched(self) -> Sequence[VisibleRecords]:
        return self.gate.streams(names=self.query.streams, connection_id=self.query.connection_id)

    def _filtered(self) -> VisibleRecords:
        """Return the only stream of a search with filters."""
        [searched] = self._searched()
        return searched

    def _envelope_size(self, found: SearchResult, form: envelopes.ListForm) -> Size:
        """Return the envelope size for the longest cursor on the page."""
        if form.total is None:
            return Size(0, 0)
        places = (found.cursor_state(count) for count in range(1, len(found.hits) + 1))
        longest = crypto.cursor_length(
            "search", scope=self.scope, query=self._query(), places=places
        )
        about = [self._meta(found)]
        about += map(asdict, skipped_stream_warnings(found))
        return envelopes.envelope_size(
            form, url=self.url, warnings=self.warnings, cursor=longest, meta=about
        )

    def _search_request(self) -> SearchRequest:
        return SearchRequest(
            q=self.query.q,
            mode=self.mode,
            streams=self.query.streams,
            connection_id=self.query.connection_id,
            filters=self.query.filter or (),
            limit=page_limit(self.query.limit, self.warnings),
            newest_first=self.query.sort == "-time",
            since=self.query.after,
            until=self.query.before,
            exact=self.query.match == "exact",
            after=self._cursor(),
        )

    def _cursor(self) -> dict[str, Any] | None:
        cursor = self.query.cursor
        if cursor is None:
            return None
        return crypto.decode_cursor(cursor, "search", scope=self.scope, query=self._query())

    def _query(self) -> dict[str, Any]:
        """Return the query that a cursor is bound to."""
        return {**self.query.binding(), "mode": self.mode}


class SearchModeView(SearchView):
    """A search mode at its own route; 404 if no stream supports the mode."""

    parameters = SearchInMode

    @override
    def get(self, request: Request) -> Answer:
        try:
            return super().get(request)
        except InvalidRequest as error:
            if error.param != "mode":
                raise
            raise SearchModeUnavailable(
                message=error.message, param="mode", next_step=error.extra["next_step"]
            ) from error


class SemanticSearchView(SearchModeView):
    """Search records by meaning, as with `mode=semantic`."""

    route = "semantic search"
    mode = SEMANTIC


class HybridSearchView(SearchModeView):
    """Search records by words and meaning, as with `mode=hybrid`."""

    route = "hybrid search"
    mode = HYBRID


Json = dict[str, Any]

COMPACT_CHARS = 96
"""Width of the excerpt of a compact hit, about."""
EMBEDDING_NOTE = "Semantic search does not find the newest records there yet; lexical search does."
REINDEXING_NOTE = (
    "The index there is being rebuilt. Until then, search finds exact words, and may miss records"
    " with other word forms."
)


def hit_body(found: Hit, *, mode: str) -> Json:
    """Return a search hit. Only a text match has excerpts (B3).

    The snippet of a semantic match names its provenance and how to read more.
    """
    visible, record = found.visible, found.record
    body: Json = {
        "object": "search_result",
        "stream": visible.stream.name,
        "record_key": record.record_key,
        "connector_id": visible.source.connector_key,
        **connection_members(visible, record),
        "emitted_at": format_time(record.emitted_at),
        "version": record.version,
        "origin": record_origin(visible, record),
        "matched_fields": list(dict.fromkeys(excerpt.field for excerpt in found.excerpts)),
        "record_url": record_path(visible.stream.name, record.record_key)
        + f"?connection_id={record.connection.connection_id}",
        **_ranking(found, mode),
        "evidence_excerpts": [_excerpt(found, excerpt) for excerpt in found.excerpts],
    }
    body |= title_and_time(visible, record.data) | actor_place_and_amount(visible, record.data)
    if found.excerpts:
        best = found.excerpts[0]
        body["snippet"] = {"field": best.field, "text": excerpt_with_marks(best.text, best.passage)}
    elif found.nearest is not None:
        body["snippet"] = _passage(found, found.nearest)
    return body


def shown_fields(found: Hit, body: Json) -> frozenset[str]:
    """Return the fields that the body of a hit shows after budgets have cut it, for the ledger."""
    fields = {*body.get("matched_fields", ()), *role_fields(found.visible, body)}
    fields |= {excerpt["field_path"] for excerpt in body["evidence_excerpts"]}
    if "snippet" in body:  # of a semantic match, where no word matched
        fields.add(body["snippet"]["field"])
    return frozenset(fields)


def word_forms_body(hit: Hit, found: SearchResult) -> Json:
    """Return the words of the query that the record has in other forms, or not at all."""
    if found.asked is None:
        return {}
    forms = word_forms(hit, found.asked, any_word=found.any_word)
    return {"word_forms": forms} if forms else {}


def compact_hit_body(found: Hit) -> Json:
    """Return a search hit with one excerpt: the best of the longest text that does not repeat the title.

    The match marks of the excerpt are ours alone: a mark in the record's text is escaped.
    """
    visible, record = found.visible, found.record
    own = title_and_time(visible, record.data)
    if "title" in own:
        own["title"] = item_title(own)
    excerpts = [
        (excerpt, _narrowed(excerpt))
        for excerpt in sorted(found.excerpts, key=lambda each: -len(each.text))
        if excerpt.field != visible.stream.heading_field
    ] or [(excerpt, _narrowed(excerpt)) for excerpt in found.excerpts]
    body: Json = {
        "object": "search_result",
        "stream": visible.stream.name,
        "record_key": record.record_key,
        **connection_members(visible, record),
        "origin": record_origin(visible, record),
        **own,
        **actor_place_and_amount(visible, record.data),
        "evidence_excerpts": [
            {
                "field_path": excerpt.field,
                "preview_text": excerpt_with_marks(excerpt.text, passage),
            }
            for excerpt, passage in excerpts[:1]
        ],
    }
    if not excerpts and found.nearest is not None:
        nearest = _passage(found, found.nearest)
        body["snippet"] = {name: nearest[name] for name in nearest if name != "read"}
    return body


def _narrowed(excerpt: Excerpt) -> Passage:
    """Return the part of a passage with its matches and what follows them, in half as many wide characters."""
    text, passage = excerpt.text, excerpt.passage
    starts, ends = zip(*(passage.marks or [(passage.start, passage.start)]), strict=True)
    shown = text[passage.start : passage.end]
    width = COMPACT_CHARS if len(shown.encode()) < 2 * len(shown) else COMPACT_CHARS // 2
    if len(shown) <= width:
        return passage
    first = max(passage.start, min(starts[0] - width // 4, passage.end - width))
    last = min(passage.end, max(first + width, ends[-1] + width // 2))
    first = max(passage.start, word_start(text, first, start=starts[0]))
    last = grapheme_ceil(text, last)
    inside = tuple(mark for mark in passage.marks if first <= mark[0] and mark[1] <= last)
    return Passage(first, last, inside)


def _first_match(passage: Passage) -> Json:
    start, end = passage.marks[0] if passage.marks else (passage.start, passage.start)
    return {"match_start_chars": start, "match_end_chars": end}


def _ranking(found: Hit, mode: str) -> Json:
    """Return the scores that ranked the hit."""
    scores = {}
    if found.candidate is not None:
        scores["lexical"] = {
            "kind": "field_impact",
            "value": found.candidate.score,
            "order": "higher_is_better",
        }
    if found.near is not None:
        scores["semantic"] = {
            "kind": "semantic_distance",
            "value": round(1 - found.near.points / MILLIONTHS, 6),
            "order": "lower_is_better",
        }
    if mode != HYBRID:
        retrieval = {} if mode == LEXICAL else {"retrieval_mode": mode}
        return retrieval | {"score": scores[mode]}
    return {"retrieval_mode": mode, "retrieval_sources": list(scores), "scores": scores}


def search_meta(found: SearchResult, *, mode: str, searched: str) -> Json:
    """Return counts and recall; ``searched`` says where nothing was found."""
    body: Json = {"recall": _recall(found)}
    if found.count is not None:
        body["count"] = found.count
        body["count_accuracy"] = _accuracy(found)
    if mode != LEXICAL:
        body["search_mode"] = mode
    if found.lexical:
        body["match"] = "all_words" if found.any_word is None else "any_word"
    if found.waiting or found.reindexing:
        body["index_maintenance"] = _maintenance(found)
    return body | _absence(found, searched)


def _absence(found: SearchResult, searched: str) -> Json:
    """Return the words that nothing visible has, and what to make of it."""
    body: Json = {}
    within = f" {searched}" if searched else ""
    if found.absent_words:
        body["absent_words"] = list(found.absent_words)
        if found.asked is not None and are_cut(found.asked):
            body["absent_words_truncated"] = True
    if found.suggestions:
        body["suggestions"] = {word: list(others) for word, others in found.suggestions.items()}
    if not found.hits:
        body["hint"] = _hint(found, within)
    elif found.any_word is not None:
        body["note"] = _note(found, within)
    return body | ({"searched": searched} if body and searched else {})


def searched_within(query: SearchInMode) -> str:
    """Return what a request narrowed its search to, in words, empty if to nothing."""
    names = {
        "within source": query.connector_id,
        "within connection": query.connection_id,
        "after": query.after,
        "before": query.before,
    }
    parts = [f"{place} {name}" for place, name in names.items() if name is not None]
    if query.streams:
        parts.append(f"in stream{'s' * (len(query.streams) > 1)} {' or '.join(query.streams)}")
    if filters := dict.fromkeys(parameter_name(keys) for keys, _ in query.filter or ()):
        parts.append(f"with {' and '.join(filters)}")
    return ", ".join(parts)


def _accuracy(found: SearchResult) -> str:
    """Return the accuracy of the count; an outdated index may miss or add matches."""
    if found.reindexing:
        return "estimated"
    return "lower_bound" if found.lower_bound else "exact"


def _recall(found: SearchResult) -> Json:
    complete = found.complete and not (found.waiting or found.reindexing)
    body: Json = {
        "complete": complete,
        "ranking_scope": "all_matches" if found.window is None else "candidate_window",
        "truncated": not complete,
    }
    return body | ({} if found.window is None else {"candidate_window_limit": found.window})


def _maintenance(found: SearchResult) -> Json:
    notes = (
        (found.waiting, EMBEDDING_NOTE),
        (found.reindexing, REINDEXING_NOTE),
    )
    return {
        "pending_scopes": [
            {"connection_id": connection_id, "stream": stream}
            for connection_id, stream in sorted({*found.waiting, *found.reindexing})
        ],
        "note": " ".join(note for scopes, note in notes if scopes),
    }


def _note(found: SearchResult, within: str) -> str:
    note = f"No record{within} has all the words. These have the most of them."
    absent = ", ".join(
        f"{word!r} (also searched as {' or '.join(map(repr, others))})" if others else repr(word)
        for word in found.absent_words
        for others in [found.suggestions.get(word, ())]
    )
    return f"{note} Nothing visible{within} has {absent}." if absent else note


def _hint(found: SearchResult, within: str) -> str:
    if found.suggestions:
        words = "; ".join(
            f"{' or '.join(map(repr, others))} instead of {word!r}"
            for word, others in found.suggestions.items()
        )
        there = " there" if within else ""
        return f"Nothing visible{within} matches. What is visible{there} has {words}."
    if not found.complete:
        return (
            "Too many records have parts of the query to compare all of them, so others may match. "
            "Narrow with streams, after or before, or add a word."
        )
    try_others = "Try fewer or other words, or a prefix such as invoi*."
    return f"Nothing visible{within} matches. {try_others}"


def skipped_stream_warnings(found: SearchResult) -> list[ApiWarning]:
    """Return a warning for requested streams without a searchable granted field."""
    if not found.skipped:
        return []
    names = sorted({visible.stream.name for visible in found.skipped})
    return [
        ApiWarning(
            "source_skipped_not_applicable",
            "Streams without a searchable field were skipped.",
            "streams",
            {"streams": names},
        )
    ]


def _passage(found: Hit, nearest: Excerpt) -> Json:
    """Return the snippet of a semantic match, with the request that reads it. It proves no match."""
    record, start = found.record, nearest.passage.start
    read = field_window_link(
        found.visible.stream.name,
        record.record_key,
        nearest.field,
        record.connection.connection_id,
    )
    return {
        "field": nearest.field,
        "text": excerpt_text(nearest.text, nearest.passage),
        "provenance": "semantic_passage",
        "start_chars": start,
        "end_chars": nearest.passage.end,
        "total_chars": len(nearest.text),
        "read": {**read, "offset_chars": start},
    }


def _excerpt(found: Hit, excerpt: Excerpt) -> Json:
    visible, record, passage = found.visible, found.record, excerpt.passage
    read = field_window_link(
        visible.stream.name, record.record_key, excerpt.field, record.connection.connection_id
    )
    return {
        "object": "evidence_excerpt",
        "field_path": excerpt.field,
        "preview_text": excerpt_with_marks(excerpt.text, passage),
        "plain_text": excerpt_text(excerpt.text, passage),
        "start_chars": passage.start,
        "end_chars": passage.end,
        **_first_match(passage),
        "total_chars": len(excerpt.text),
        "truncated": passage.start > 0 or passage.end < len(excerpt.text),
        "provenance": "lexical_match",
        "field_sha256": hashlib.sha256(excerpt.text.encode()).hexdigest(),
        "read": read,
    }
