"""List connectors and post source declarations: `/v1/connectors` (contracts 3.2 and 5.1)."""

from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence.api import schema_bodies
from evidence.api.base_views import GrantedView
from evidence.api.json_io import read_body
from evidence.api.query_parameters import CONNECTION_PARAMETERS
from evidence.ledger.entries import DisclosedItem
from evidence.reading import schema
from evidence.storing.declaration_store import current_declaration, declare

MAX_DECLARATION_BYTES = 1024 * 1024


class ConnectorsView(GrantedView):
    owner_methods: ClassVar = {"POST": frozenset()}
    parameters = CONNECTION_PARAMETERS

    def get(self, request: Request) -> Response:
        found = schema.capabilities(self.gate, connection_id=self.query.connection_id())
        response = Response({"object": "list", "data": [_connector(source) for source in found]})
        for notice in self.query.warnings:  # in this list, the contract has no meta
            response["PDPP-Warning"] = notice.code
        return response

    def post(self, request: Request) -> Response:
        """Declare a source; posting the same document again changes nothing."""
        accepted = declare(
            read_body(request, max_bytes=MAX_DECLARATION_BYTES),
            owner_id=self.scope.owner_id,
            now=timezone.now(),
        )
        body = {
            "object": "connector",
            "connector_id": accepted.connector_key,
            "connector_key": accepted.connector_key,
            "version": accepted.version,
            "revision": accepted.revision,
            "changed": accepted.changed,
        }
        return Response(body, status=201 if accepted.changed else 200)


class ConnectorView(GrantedView):
    """Return a source declaration as it was posted."""

    owner_only = True

    def get(self, request: Request, connector_id: str) -> Response:
        return Response(current_declaration(connector_id, owner_id=self.scope.owner_id))

    @override
    def disclosed_in(self, response: HttpResponseBase) -> Sequence[DisclosedItem]:
        return []


def _connector(source: schema.SourceCapability) -> dict[str, Any]:
    return schema_bodies.connector_body(source) | {
        "streams": [_stream(row) for row in source.streams]
    }


def _stream(row: schema.StreamCapability) -> dict[str, Any]:
    name = row.declaration.name
    route = f"/v1/streams/{quote(name, safe='')}"
    return {
        "name": name,
        "aggregate": True,
        "aggregate_url": f"{route}/aggregate",
        "changes_since": True,
        "exact_filters": any(field.exact_filter for field in row.fields),
        "range_filters": any(field.range_operators for field in row.fields),
        "expand": any(expand.usable for expand in row.relations),
        "metadata_url": route,
        "records": True,
        "records_url": f"{route}/records",
    }
