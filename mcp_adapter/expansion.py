"""Whether a stream can be expanded at all, asked of the live schema before the records are."""

from typing import Any

from mcp_adapter.errors import AdapterError
from mcp_adapter.rest import RestAnswer
from mcp_adapter.tool import Call


def gate(call: Call, *, stream: str, connection_id: str | None) -> None:
    """Refuse `expand` and `expand_limit` on a stream whose schema advertises no relation.

    Nothing is remembered between calls, so a changed declaration holds on the next one. Where the
    schema cannot be read or does not know the stream, the resource server decides (D9).
    """
    if "expand" not in call.given and "expand_limit" not in call.given:
        return
    params = [("view", "compact"), ("stream", stream)]
    if connection_id is not None:
        params.append(("connection_id", connection_id))
    rows = _rows(call.ask("/v1/schema", params), stream)
    if rows and not any(row.get("expand_capabilities") for row in rows):
        raise AdapterError(
            "invalid_expand",
            f"Stream {stream} advertises no relation to expand "
            "(expand_capabilities of GET /v1/schema).",
            param="expand" if "expand" in call.given else "expand_limit",
            next_step=f"Call again without expand; schema(stream={stream!r}) shows "
            "expand_capabilities.",
        )


def _rows(answer: RestAnswer, stream: str) -> list[dict[str, Any]]:
    if answer.status != 200 or isinstance(answer.body, bytes):
        return []
    return [
        row
        for connector in answer.body.get("connectors", [])
        for row in connector.get("streams", [])
        if row.get("name") == stream
    ]
