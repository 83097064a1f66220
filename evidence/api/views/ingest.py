"""``POST /v1/ingest/{stream}``: NDJSON from the owner's collectors (contract 5.3)."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence import limits
from evidence.api.base import GrantedView
from evidence.api.owned import owned_connection
from evidence.api.params import CONNECTION
from evidence.refusals import ResourceLimit
from evidence.storing.ingest import Outcome, ingest_stream
from evidence.storing.lines import read_lines
from evidence.storing.receipts import Receipt

SHOWN_RECEIPTS = 1_000


class IngestView(GrantedView):
    """Every line is answered for: accepted, or a receipt without its content."""

    owner_only = True
    parameters = CONNECTION | {"run_id", "replace"}

    def post(self, request: Request, stream: str) -> Response:
        body = request._request  # noqa: SLF001 - the lines are read as they come
        if int(body.META.get("CONTENT_LENGTH") or 0) > limits.INGEST_MAX_BYTES:
            raise ResourceLimit(
                message=f"A request takes at most {limits.INGEST_MAX_BYTES} bytes.",
                next_step="Send the lines in several requests.",
            )
        outcome = ingest_stream(
            read_lines(body, longest=limits.INGEST_MAX_BYTES),
            connection_id=owned_connection(self.scope, self.query),
            stream=stream,
            owner_id=self.scope.owner_id,
            now=timezone.now(),
            replace=self.query.choice("replace", "true", "false", default="false") == "true",
        )
        return Response(_body(stream, outcome))


def _body(stream: str, outcome: Outcome) -> dict[str, Any]:
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
        "rejections": [_rejection(each) for each in outcome.receipts[:SHOWN_RECEIPTS]],
        "rejections_omitted": max(0, outcome.by_code.total() - SHOWN_RECEIPTS),
    }


def _rejection(receipt: Receipt) -> dict[str, Any]:
    body: dict[str, Any] = {
        "input_index": receipt.line - 1,
        "line": receipt.line,
        "code": str(receipt.code),
        "receipt_id": receipt.receipt_id,
    }
    return body | ({"path": receipt.path} if receipt.path else {})
