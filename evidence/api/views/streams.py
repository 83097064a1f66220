"""``GET /v1/streams`` and ``GET /v1/streams/{stream}``."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api import envelopes, schema_bodies
from evidence.api.base import GrantedView
from evidence.api.disclosing import counted_streams
from evidence.api.params import CONNECTION
from evidence.ledger.entries import Shown
from evidence.reading import schema, streams
from evidence.refusals import AmbiguousConnection


class StreamsView(GrantedView):
    """One row for each stream of each connection."""

    conditional = True
    parameters = CONNECTION

    def get(self, request: Request) -> Response:
        rows = streams.listed(self.gate, connection_id=self.query.connection_id())
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
