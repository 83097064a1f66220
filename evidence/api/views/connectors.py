"""Connectors and the owner's connections: list them, post source declarations, rename connections.

`/v1/connectors` (contracts 3.2 and 5.1) and `/v1/owner/connections` (contract 5.2).
"""

from typing import Any, ClassVar
from urllib.parse import quote

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.api import envelopes
from evidence.api.base_views import Answer, Described, GrantedView, read_body, read_object
from evidence.api.views.schema import (
    SourceCapability,
    StreamCapability,
    capabilities,
    connector_body,
)
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.parameters import Connections, OwnerConnections, Parameters
from evidence.write.connections import list_connections, rename
from evidence.write.declaration_store import current_declaration, declare

MAX_DECLARATION_BYTES = 1024 * 1024


class ConnectorsView(GrantedView):
    route = "connectors"
    described: ClassVar = {
        "GET": Described("ConnectorList"),
        "POST": Described("Connector", "2XX", "application/json"),
    }
    owner_methods: ClassVar = {"POST": Parameters}
    parameters = Connections
    query: Connections

    def get(self, request: Request) -> Answer:
        """List the connectors that the token may read."""
        found = capabilities(self.gate, connection_id=self.query.connection_id)
        response = Response({"object": "list", "data": [_connector(source) for source in found]})
        for notice in self.warnings:  # in this list, the contract has no meta
            response["PDPP-Warning"] = notice.code
        return Answer(response)

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

    route = "connector"
    described: ClassVar = {"GET": Described("Declaration")}
    owner_only = True

    def get(self, request: Request, connector_id: str) -> Answer:
        return Answer(current_declaration(connector_id, owner_id=self.scope.owner_id))


def _connector(source: SourceCapability) -> dict[str, Any]:
    return connector_body(source) | {"streams": [_stream(row) for row in source.streams]}


def _stream(row: StreamCapability) -> dict[str, Any]:
    name = row.declaration.name
    route = f"/v1/streams/{quote(name, safe='')}"
    return {
        "object": "stream",
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


MAX_BODY_BYTES = 64 * 1024


class OwnerConnectionsView(GrantedView):
    """List every connection of the owner, including revoked ones."""

    route = "owner connections"
    described: ClassVar = {"GET": Described("OwnerConnectionList")}
    owner_only = True
    parameters = OwnerConnections
    query: OwnerConnections

    def get(self, request: Request) -> Answer:
        rows = list_connections(
            self.scope.owner_id, connector_id=self.query.connector_id, status=self.query.status
        )
        body = {"object": "list", "has_more": False, "data": [_body(row) for row in rows]}
        return Answer(envelopes.with_links_and_meta(body, self_link=self.url))


class OwnerConnectionView(GrantedView):
    """Rename a connection."""

    route = "owner connection"
    described: ClassVar = {"PATCH": Described("OwnerConnection", takes="application/json")}
    owner_only = True

    def patch(self, request: Request, connection_id: str) -> Response:
        content = read_object(request, max_bytes=MAX_BODY_BYTES)
        unknown = sorted(set(content) - {"display_name"})
        if unknown:
            raise InvalidRequest(
                message="The request body takes one member, display_name.", param=unknown[0][:64]
            )
        row = rename(
            connection_id,
            display_name=content.get("display_name"),
            owner_id=self.scope.owner_id,
            now=timezone.now(),
        )
        return Response(_body(row))


def _body(row: Connection) -> dict[str, Any]:
    is_revoked = row.status == Connection.Status.REVOKED
    return {
        "object": "owner_connection",
        "connection_id": row.connection_id,
        "connector_instance_id": row.connection_id,
        "connector_id": row.source.connector_key,
        "connector_key": row.source.connector_key,
        "display_name": row.display_name,
        "label_status": "owner_set" if row.labelled_by_owner else "fallback",
        "status": row.status,
        "source_kind": row.source.kind,
        "source_binding": {"kind": row.source.kind, "id": row.source.source_id},
        "schedule": None,
        "supported_actions": [
            {
                "family": "rename",
                "status": "supported",
                "method": "PATCH",
                "url": f"/v1/owner/connections/{row.connection_id}",
                "reason": "",
            }
        ],
        "created_at": envelopes.format_time(row.created_at),
        "updated_at": envelopes.format_time(row.updated_at),
        "revoked_at": envelopes.format_time(row.updated_at) if is_revoked else None,
    }
