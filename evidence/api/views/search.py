"""``GET /v1/search``, and the routes of the contract for its further modes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access import cursors
from evidence.api import envelopes, search_bodies, size_budget
from evidence.api.base_views import GrantedView
from evidence.api.disclosed_records import told_in_numbers
from evidence.api.query_parameters import CONNECTION
from evidence.errors import InvalidRequest, NotFound
from evidence.ledger.entries import Shown
from evidence.reading.search import search
from evidence.search.query_planner import HYBRID, LEXICAL, MODES, SEMANTIC
from evidence.search.results import Found, SearchRequest

COMMON = CONNECTION | {"q", "limit", "cursor", "streams", "filter", "sort"} | size_budget.PARAMETERS


class SearchView(GrantedView):
    asks_all = True
    parameters = COMMON | {"mode"}

    @property
    def mode(self) -> str:
        return self.query.choice("mode", *MODES, default=LEXICAL)

    def get(self, request: Request) -> Response:
        found = self.found = search(self.gate, self._asked())
        data = [search_bodies.hit(each, mode=self.mode) for each in found.hits]
        shown = size_budget.fitted(
            data,
            size_budget.asked(self.query),
            self._frame(found),
            more=found.has_more,
            cut=size_budget.fewer_excerpts,
        )
        has_more = found.has_more or len(shown) < len(data)
        body: dict[str, Any] = {
            "object": "list",
            "url": request.path,
            "has_more": has_more,
            "data": shown,
        }
        next_link = None
        if has_more and shown:
            body["next_cursor"] = cursors.seal(
                "search", scope=self.scope, query=self._query(), place=found.place(len(shown))
            )
            next_link = self.query.link(cursor=body["next_cursor"])
        answer = envelopes.finished(
            body,
            self_link=self.query.path,
            next_link=next_link,
            warnings=[*self.query.warnings, *search_bodies.skipped(found)],
        )
        answer["meta"] |= search_bodies.meta(found, mode=self.mode)
        return Response(answer)

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        """The hits, or that a filter leaves none, and the records that suggested words come from."""
        hits = super().shown_in(response)
        if not hits and self.filtered_by:
            [searched] = self.gate.streams(
                names=self.query.names("streams"), connection_id=self.query.connection_id()
            )
            hits = told_in_numbers(searched, fields=self.filtered_by)
        suggested = (
            Shown(each.connection_id, each.stream, each.record_key, each.fields)
            for each in self.found.holders
        )
        return [*hits, *suggested]

    def _frame(self, found: Found) -> size_budget.Frame:
        """The page without its hits; hits named by longer keys have longer cursors."""
        places = [found.place(count) for count in range(1, len(found.hits) + 1)]
        lengths = (cursors.length("search", query=self._query(), place=place) for place in places)
        about = [search_bodies.meta(found, mode=self.mode)]
        about += map(asdict, search_bodies.skipped(found))
        return size_budget.frame(self.query, cursor=max(lengths, default=0), meta=about)

    def _asked(self) -> SearchRequest:
        q = self.query.text("q")
        if q is None:
            raise InvalidRequest(message="q takes the words to search for.", param="q")
        return SearchRequest(
            q=q,
            mode=self.mode,
            streams=self.query.names("streams"),
            connection_id=self.query.connection_id(),
            filters=self.query.nested("filter"),
            limit=self.query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX),
            newest_first=self.query.choice("sort", "-time", default="") == "-time",
            after=self._unsealed(),
        )

    def _unsealed(self) -> dict[str, Any] | None:
        cursor = self.query.text("cursor")
        if cursor is None:
            return None
        return cursors.unseal(cursor, "search", scope=self.scope, query=self._query())

    def _query(self) -> dict[str, Any]:
        return {
            "q": self.query.text("q"),
            "mode": self.mode,
            "streams": self.query.names("streams"),
            "filter": sorted(self.query.nested("filter")),
            "connection_id": self.query.text("connection_id")
            or self.query.text("connector_instance_id"),
            "connector_id": self.query.text("connector_id"),
            "sort": self.query.text("sort"),
        }


class FurtherSearchView(SearchView):
    """A mode at a route of its own, which is not there where nothing has that mode."""

    parameters = COMMON

    @override
    def get(self, request: Request) -> Response:
        try:
            return super().get(request)
        except InvalidRequest as refusal:
            if refusal.param != "mode":
                raise
            raise NotFound(param="mode", next_step=refusal.extra["next_step"]) from refusal


class SemanticSearchView(FurtherSearchView):
    """``/v1/search/semantic``: the same as ``mode=semantic``."""

    mode = SEMANTIC


class HybridSearchView(FurtherSearchView):
    """``/v1/search/hybrid``: the same as ``mode=hybrid``."""

    mode = HYBRID
