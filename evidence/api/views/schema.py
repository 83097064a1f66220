"""`GET /v1/schema`, `/v1/streams` and `/v1/streams/{stream}`."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api import compact_schema, envelopes, schema_bodies
from evidence.api.base_views import GrantedView
from evidence.api.disclosed_records import schema_disclosures
from evidence.api.query_parameters import CONNECTION_PARAMETERS, ApiWarning
from evidence.errors import AmbiguousConnection
from evidence.ledger.entries import DisclosedItem
from evidence.reading import schema

TOO_MANY_STREAMS = ApiWarning(
    "partial_results",
    "Too many streams to describe all fields; choose one with stream.",
    "stream",
)


class SchemaView(GrantedView):
    conditional = True
    parameters = CONNECTION_PARAMETERS | {"view", "detail", "stream"}

    def get(self, request: Request) -> Response:
        view = (self.query.text("view") or "").strip().lower()
        stream = self.query.text("stream")
        detail = self.query.choice("detail", "compact", "full", default="compact")
        is_full = detail == "full" and view not in ("compact", "index")
        if is_full:
            schema.require_stream(detail=detail, stream=stream)
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id()
        )
        self.counted = [] if view == "index" else found
        if is_full:
            schema.require_one_source(found)
        if view == "compact":
            body = compact_schema.compact_body(found)
            if "field_capabilities_omitted" in body:
                self.query.warnings.append(TOO_MANY_STREAMS)
        elif view == "index":
            body = schema_bodies.index_body(found)
        else:
            body = schema_bodies.full_body(found, self.scope)
        return Response(
            envelopes.with_links_and_meta(
                body, self_link=self.query.path, warnings=self.query.warnings
            )
        )

    @override
    def disclosed_in(self, response: HttpResponseBase) -> Sequence[DisclosedItem]:
        return schema_disclosures(self.counted)


class StreamsView(GrantedView):
    """List the streams of each connection."""

    conditional = True
    parameters = CONNECTION_PARAMETERS

    def get(self, request: Request) -> Response:
        rows = schema.list_streams(self.gate, connection_id=self.query.connection_id())
        body = {
            "object": "list",
            "has_more": False,
            "data": [schema_bodies.stream_body(row) for row in rows],
        }
        return Response(
            envelopes.with_links_and_meta(
                body, self_link=self.query.path, warnings=self.query.warnings
            )
        )


class StreamView(GrantedView):
    """Return the metadata of one stream, as in the schema."""

    conditional = True
    parameters = CONNECTION_PARAMETERS

    def get(self, request: Request, stream: str) -> Response:
        found = schema.capabilities(
            self.gate, stream=stream, connection_id=self.query.connection_id()
        )
        self.counted = found
        rows = [row for source in found for row in source.streams]
        if len(rows) > 1:
            raise AmbiguousConnection(
                [candidate for row in rows for candidate in row.visible.candidates()]
            )
        return Response(
            envelopes.with_links_and_meta(
                schema_bodies.stream_metadata_body(rows[0]),
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    @override
    def disclosed_in(self, response: HttpResponseBase) -> Sequence[DisclosedItem]:
        return schema_disclosures(self.counted)
