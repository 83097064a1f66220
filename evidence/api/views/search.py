"""``GET /v1/search``."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from evidence import limits
from evidence.access.matches import Rank
from evidence.api import budget, cursors, envelopes, search_bodies
from evidence.api.base import GrantedView
from evidence.api.params import CONNECTION
from evidence.declarations.values import instant
from evidence.reading import search
from evidence.reading.spelling import Spellings
from evidence.refusals import InvalidRequest


class SearchView(GrantedView):
    parameters = CONNECTION | {"q", "limit", "cursor", "streams", "sort", "max_bytes"}

    def get(self, request: Request) -> Response:
        wanted = self._asked()
        found = search.search(self.gate, wanted)
        data = [search_bodies.hit(each) for each in found.hits]
        shown = budget.fitted_hits(data, most=budget.asked(self.query))
        has_more = found.has_more or len(shown) < len(data)
        body: dict[str, Any] = {
            "object": "list",
            "url": "/v1/search",
            "has_more": has_more,
            "data": shown,
        }
        next_link = None
        if has_more and shown:
            rank = found.hits[len(shown) - 1].match.rank
            body["next_cursor"] = cursors.seal(
                "search",
                scope=self.scope,
                query=self._query(),
                place=_place(rank, any_word=found.any_word),
            )
            next_link = self.query.link(cursor=body["next_cursor"])
        answer = envelopes.finished(
            body,
            self_link=self.query.path,
            next_link=next_link,
            warnings=[*self.query.warnings, *search_bodies.skipped(found)],
        )
        answer["meta"] |= search_bodies.meta(found)
        return Response(answer)

    def _asked(self) -> search.SearchRequest:
        q = self.query.text("q")
        if q is None:
            raise InvalidRequest(message="q takes the words to search for.", param="q")
        place = self._unsealed()
        return search.SearchRequest(
            q=q,
            streams=self.query.names("streams"),
            connection_id=self.query.connection_id(),
            limit=self.query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX),
            newest_first=self.query.choice("sort", "-time", default="") == "-time",
            after=_rank(place) if place else None,
            any_word=place["x"] if place else None,
        )

    def _unsealed(self) -> dict[str, Any] | None:
        cursor = self.query.text("cursor")
        if cursor is None:
            return None
        return cursors.unseal(cursor, "search", scope=self.scope, query=self._query())

    def _query(self) -> dict[str, Any]:
        return {
            "q": self.query.text("q"),
            "streams": self.query.names("streams"),
            "connection_id": self.query.text("connection_id")
            or self.query.text("connector_instance_id"),
            "sort": self.query.text("sort"),
        }


def _place(rank: Rank, *, any_word: Spellings | None) -> dict[str, Any]:
    at = None if rank.at is None else rank.at.isoformat()
    return {
        "n": rank.score,
        "t": at,
        "c": rank.connection_id,
        "s": rank.stream,
        "r": rank.record_key,
        "x": any_word,
    }


def _rank(place: dict[str, Any]) -> Rank:
    return Rank(place["n"], instant(place["t"]), place["c"], place["s"], place["r"])
