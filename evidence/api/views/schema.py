"""``GET /v1/schema``: what this token can do."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api import compact_schema, envelopes, schema_bodies
from evidence.api.base_views import GrantedView
from evidence.api.disclosed_records import counted_streams
from evidence.api.query_parameters import CONNECTION, Notice
from evidence.errors import AmbiguousConnection
from evidence.ledger.entries import Shown
from evidence.reading import schema

TOO_MANY = Notice(
    "partial_results",
    "There are too many streams to describe all their fields; name one with stream.",
    "stream",
)


class SchemaView(GrantedView):
    conditional = True
    parameters = CONNECTION | {"view", "detail", "stream"}

    def get(self, request: Request) -> Response:
        view = (self.query.text("view") or "").strip().lower()
        stream = self.query.text("stream")
        detail = self.query.choice("detail", "compact", "full", default="compact")
        asks_full = detail == "full" and view not in ("compact", "index")
        if asks_full:
            schema.require_stream(detail=detail, stream=stream)
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id()
        )
        self.counted = [] if view == "index" else found
        if asks_full:
            schema.require_one_source(found)
        if view == "compact":
            body = compact_schema.compact(found)
            if "field_capabilities_omitted" in body:
                self.query.warnings.append(TOO_MANY)
        elif view == "index":
            body = schema_bodies.index(found)
        else:
            body = schema_bodies.full(found, self.scope)
        return Response(
            envelopes.finished(body, self_link=self.query.path, warnings=self.query.warnings)
        )

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        return counted_streams(self.counted)


class StreamsView(GrantedView):
    """One row for each stream of each connection."""

    conditional = True
    parameters = CONNECTION

    def get(self, request: Request) -> Response:
        rows = schema.listed(self.gate, connection_id=self.query.connection_id())
        body = {
            "object": "list",
            "has_more": False,
            "data": [envelopes.stream(row) for row in rows],
        }
        return Response(
            envelopes.finished(body, self_link=self.query.path, warnings=self.query.warnings)
        )


class StreamView(GrantedView):
    """The metadata of one stream, as in the schema."""

    conditional = True
    parameters = CONNECTION

    def get(self, request: Request, stream: str) -> Response:
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id()
        )
        self.counted = found
        rows = [row for source in found for row in source.streams]
        if len(rows) > 1:
            raise AmbiguousConnection([each for row in rows for each in row.visible.candidates()])
        return Response(
            envelopes.finished(
                schema_bodies.stream_metadata(rows[0]),
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        return counted_streams(self.counted)
