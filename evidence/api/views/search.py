"""`GET /v1/search` and its semantic and hybrid routes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from rest_framework.request import Request
from typing_extensions import override

from evidence.access import crypto
from evidence.access.records import VisibleRecords
from evidence.api import envelopes, search_bodies
from evidence.api.base_views import Answer, Described, GrantedView
from evidence.api.query_parameters import page_limit, unmatched_warnings
from evidence.errors import InvalidRequest, SearchModeUnavailable
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import Size
from evidence.parameters import Search, SearchInMode
from evidence.read import filters
from evidence.read.search import search
from evidence.search.results import SearchRequest, SearchResult
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
            warnings=[*self.warnings, *search_bodies.skipped_stream_warnings(found)],
        )
        response_body["meta"] |= self._meta(found) | page.meta
        if found.any_word is not None:  # said before the hits
            response_body = {"meta": response_body.pop("meta"), **response_body}
        return Answer(response_body, self._disclosed(found, shown))

    def _meta(self, found: SearchResult) -> dict[str, Any]:
        searched = search_bodies.searched_within(self.query)
        return search_bodies.search_meta(found, mode=self.mode, searched=searched)

    def _hit_bodies(self, found: SearchResult, form: envelopes.ListForm) -> list[dict[str, Any]]:
        return [
            (
                search_bodies.compact_hit_body(hit)
                if form.compact
                else search_bodies.hit_body(hit, mode=self.mode)
            )
            | search_bodies.word_forms_body(hit, found)
            for hit in found.hits
        ]

    def _disclosed(
        self, found: SearchResult, bodies: Sequence[dict[str, Any]]
    ) -> list[DisclosedItem]:
        """Return the shown hits, or the streams that have none, and the records of suggested words."""
        fields = self._filter_fields()
        shown = [
            DisclosedItem(*hit.key, search_bodies.shown_fields(hit, body) | fields)
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
        about += map(asdict, search_bodies.skipped_stream_warnings(found))
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
