"""Endpoints for collectors: NDJSON ingest and saved state (contracts 5.3 and 5.4)."""

from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence import limits
from evidence.access.grant_states import granted_stream_names
from evidence.access.scope import TokenKind
from evidence.api.base_views import (
    Answer,
    Described,
    GrantedView,
    read_object,
    target_connection_id,
)
from evidence.api.envelopes import format_time
from evidence.errors import InvalidRequest, ResourceLimit, WrongTokenKind
from evidence.parameters import CollectorState, Ingest
from evidence.write.connections import SavedState, get_state, put_state
from evidence.write.ingest import IngestResult, ingest_stream
from evidence.write.ndjson import CODE_MESSAGES, Receipt, read_lines

MAX_RECEIPTS = 1_000


class IngestView(GrantedView):
    """Store NDJSON lines. A rejected line gets a receipt without its content."""

    route = "ingest"
    described: ClassVar = {"POST": Described("IngestReceipt", takes="application/x-ndjson")}
    owner_only = True
    collector_methods = frozenset({"POST"})
    parameters = Ingest
    query: Ingest

    def post(self, request: Request, stream: str) -> Response:
        body = request._request  # noqa: SLF001 - the lines are read as they come
        if int(body.META.get("CONTENT_LENGTH") or 0) > limits.INGEST_MAX_BYTES:
            raise ResourceLimit(
                message=f"A request takes at most {limits.INGEST_MAX_BYTES} bytes.",
                next_step="Send the lines in several requests.",
            )
        outcome = ingest_stream(
            read_lines(body, max_bytes=limits.INGEST_MAX_BYTES),
            connection_id=target_connection_id(self.scope, self.query),
            stream=stream,
            owner_id=self.scope.owner_id,
            now=timezone.now(),
            replace=self.query.replace,
            bounds_deletions=self.scope.kind is TokenKind.COLLECTOR,
        )
        return Response(_body(stream, outcome))


def _body(stream: str, outcome: IngestResult) -> dict[str, Any]:
    return {
        "stream": stream,
        "records_attempted": outcome.lines,
        "records_accepted": outcome.accepted,
        "records_rejected": outcome.lines - outcome.accepted,
        "records_created": outcome.created,
        "records_updated": outcome.updated,
        "records_deleted": outcome.deleted,
        "records_unchanged": outcome.unchanged,
        "errors": [],
        "rejections": [_rejection(receipt) for receipt in outcome.receipts[:MAX_RECEIPTS]],
        "rejections_omitted": max(0, outcome.by_code.total() - MAX_RECEIPTS),
        "notices": [_rejection(receipt) for receipt in outcome.notices[:MAX_RECEIPTS]],
    }


def _rejection(receipt: Receipt) -> dict[str, Any]:
    body: dict[str, Any] = {
        "input_index": receipt.line - 1,
        "line": receipt.line,
        "code": str(receipt.code),
        "message": CODE_MESSAGES[receipt.code],
        "receipt_id": receipt.receipt_id,
    }
    return body | ({"path": receipt.path} if receipt.path else {})


MAX_STATE_BYTES = 1024 * 1024


class StateView(GrantedView):
    """The state of one connection, or of one grant of its source, between runs of its collector."""

    route = "state"
    described: ClassVar = {
        "GET": Described("CollectorState"),
        "PUT": Described("CollectorState", takes="application/json"),
    }
    owner_only = True
    collector_methods = frozenset({"GET", "HEAD", "PUT"})
    parameters = CollectorState
    query: CollectorState

    def get(self, request: Request, connector_id: str) -> Answer:
        """Get the state."""
        self._granted_streams(connector_id)
        remembered = get_state(
            self._connection_id(connector_id),
            owner_id=self.scope.owner_id,
            grant_id=self.query.grant_id,
        )
        return Answer(_state_body(remembered))

    def put(self, request: Request, connector_id: str) -> Response:
        """Store the state."""
        body = read_object(request, max_bytes=MAX_STATE_BYTES)
        state = body.get("state")
        if not isinstance(state, dict):
            raise InvalidRequest(message="The request body takes one member, state.", param="state")
        remembered = put_state(
            self._connection_id(connector_id),
            state=state,
            owner_id=self.scope.owner_id,
            now=timezone.now(),
            grant_id=self.query.grant_id,
            within=self._granted_streams(connector_id),
        )
        return Response(_state_body(remembered))

    def _connection_id(self, connector_id: str) -> str:
        """Return the named connection of the connector, or its only one."""
        return target_connection_id(self.scope, self.query, connector=connector_id)

    def _granted_streams(self, connector_id: str) -> frozenset[str] | None:
        """Return the streams of the grant that the state belongs to, if any."""
        grant_id = self.query.grant_id
        if grant_id is None:
            return None
        if self.scope.kind is TokenKind.COLLECTOR:
            raise WrongTokenKind(message="A collector keeps the state of connections only.")
        owner_id = self.scope.owner_id
        return granted_stream_names(grant_id, connector_id=connector_id, owner_id=owner_id)


def _state_body(remembered: SavedState) -> dict[str, Any]:
    return {
        "object": "collector_state",
        "connector_id": remembered.connector_key,
        "connection_id": remembered.connection_id,
        "grant_id": remembered.grant_id,
        "state": dict(remembered.state),
        "updated_at": format_time(remembered.updated_at),
    }
