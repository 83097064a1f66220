"""``/v1/owner/connections``: the owner's own connections, listed and renamed (contract 5.2)."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.api import envelopes
from evidence.api.base_views import GrantedView
from evidence.api.json_io import read_object
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.storing.connections import owned, rename

BODY_BYTES = 64 * 1024


class OwnerConnectionsView(GrantedView):
    """Every connection of the owner, those that have ended too."""

    owner_only = True
    parameters = frozenset({"connector_id", "status"})

    def get(self, request: Request) -> Response:
        status = self.query.choice("status", *Connection.Status.values, default="") or None
        rows = owned(
            self.scope.owner_id, connector_id=self.query.text("connector_id"), status=status
        )
        body = {"object": "list", "has_more": False, "data": [_body(row) for row in rows]}
        return Response(envelopes.finished(body, self_link=self.query.path))


class OwnerConnectionView(GrantedView):
    """One of them; its label is what can be changed."""

    owner_only = True

    def patch(self, request: Request, connection_id: str) -> Response:
        content = read_object(request, most=BODY_BYTES)
        unknown = sorted(set(content) - {"display_name"})
        if unknown:
            raise InvalidRequest(
                message="The body has one member, display_name.", param=unknown[0][:64]
            )
        row = rename(
            connection_id,
            display_name=content.get("display_name"),
            owner_id=self.scope.owner_id,
            now=timezone.now(),
        )
        return Response(_body(row))


def _body(row: Connection) -> dict[str, Any]:
    ended = row.status == Connection.Status.REVOKED
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
        "created_at": envelopes.instant(row.created_at),
        "updated_at": envelopes.instant(row.updated_at),
        "revoked_at": envelopes.instant(row.updated_at) if ended else None,
    }
