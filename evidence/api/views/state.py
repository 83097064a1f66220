"""``/v1/state/{connector_id}``: what a collector leaves to remember (contract 5.4)."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.access.held import granted_streams
from evidence.api.base import GrantedView
from evidence.api.bodies import read_object
from evidence.api.envelopes import instant
from evidence.refusals import InvalidRequest
from evidence.storing.state import Remembered, get_state, put_state

STATE_BYTES = 1024 * 1024


class StateView(GrantedView):
    owner_only = True
    parameters = frozenset({"grant_id"})

    def get(self, request: Request, connector_id: str) -> Response:
        self._within(connector_id)
        remembered = get_state(
            connector_id, owner_id=self.scope.owner_id, grant_id=self.query.text("grant_id")
        )
        return Response(_body(remembered))

    def put(self, request: Request, connector_id: str) -> Response:
        body = read_object(request, most=STATE_BYTES)
        state = body.get("state")
        if not isinstance(state, dict):
            raise InvalidRequest(message="The body has one member, state.", param="state")
        remembered = put_state(
            connector_id,
            state=state,
            owner_id=self.scope.owner_id,
            now=timezone.now(),
            grant_id=self.query.text("grant_id"),
            within=self._within(connector_id),
        )
        return Response(_body(remembered))

    def _within(self, connector_id: str) -> frozenset[str] | None:
        """The streams of the grant that the state is kept for, where it is for one."""
        grant_id = self.query.text("grant_id")
        if grant_id is None:
            return None
        owner_id = self.scope.owner_id
        return granted_streams(grant_id, connector_id=connector_id, owner_id=owner_id)


def _body(remembered: Remembered) -> dict[str, Any]:
    return {
        "object": "collector_state",
        "connector_id": remembered.connector_key,
        "grant_id": remembered.grant_id,
        "state": dict(remembered.state),
        "updated_at": instant(remembered.updated_at),
    }
