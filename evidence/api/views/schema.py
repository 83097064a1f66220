"""``GET /v1/schema``: what this token can do."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api import compact_schema, envelopes, schema_bodies
from evidence.api.base import GrantedView
from evidence.api.disclosing import counted_streams
from evidence.api.params import CONNECTION, Notice
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
