"""List and rename the owner's connections: `/v1/owner/connections` (contract 5.2)."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.api import envelopes
from evidence.api.base_views import GrantedView
from evidence.api.json_io import read_object
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.storing.connections import list_connections, rename

MAX_BODY_BYTES = 64 * 1024


class OwnerConnectionsView(GrantedView):
    """List every connection of the owner, including revoked ones."""

    owner_only = True
    parameters = frozenset({"connector_id", "status"})

    def get(self, request: Request) -> Response:
        status = self.query.choice("status", *Connection.Status.values, default="") or None
        rows = list_connections(
            self.scope.owner_id, connector_id=self.query.text("connector_id"), status=status
        )
        body = {"object": "list", "has_more": False, "data": [_body(row) for row in rows]}
        return Response(envelopes.with_links_and_meta(body, self_link=self.query.path))


class OwnerConnectionView(GrantedView):
    """Rename a connection."""

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
        "supported_actions": ["rename"],
        "created_at": envelopes.format_time(row.created_at),
        "updated_at": envelopes.format_time(row.updated_at),
        "revoked_at": envelopes.format_time(row.updated_at) if is_revoked else None,
    }
