"""Errors of the tools: what the adapter refuses itself, and what the resource server refused.

Both reach the client as one JSON object, the same in `content[]` and in `structuredContent`, and
both name what to call next. The resource server's error object passes unchanged; where it names
no next step, one stands beside it.
"""

from typing import Any

from mcp_adapter.rest import RestAnswer

_NEXT_STEPS = {
    "ambiguous_connection": "Call again with connection_id set to one of available_connections; "
    "schema lists all of them.",
    "ambiguous_schema_detail": "Call schema(stream, connection_id, detail='full') with one of "
    "available_connections.",
    "connection_not_found": "Call schema for the connection ids this grant covers.",
    "cursor_expired": "Call again without cursor, or with changes_since='beginning'.",
    "field_not_found": "Call schema(stream) for the field names, or fetch the record.",
    "field_not_granted": "Call schema(stream) and use only the fields it lists.",
    "field_not_text": "Call fetch with fields set to this field.",
    "grant_stream_not_allowed": "Call schema for the streams this grant covers.",
    "invalid_cursor": "Call again without cursor to start from the first page.",
    "invalid_expand": "Call schema(stream) for the relations that can be expanded.",
    "invalid_sort": "Call schema(stream) for the fields that can be sorted by.",
    "not_found": "Call search or query_records for current ids, or schema for stream names.",
    "query_not_found": "Call read_record_field without q to read from the start.",
    "unknown_field": "Call schema(stream) for the field names.",
}
_ELSE = "Call schema to see what this grant allows, then call again with other arguments."


class ToolError(Exception):
    """A tool call that failed; `body` is the whole of both channels."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        super().__init__(str(body["error"].get("code")))


class AdapterError(ToolError):
    """The adapter refused the call before the resource server saw it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_step: str,
        param: str | None = None,
        **members: Any,
    ) -> None:
        """Neither `message` nor `next_step` may quote record text or a credential."""
        error = {"type": "adapter_error", "code": code, "message": message}
        if param is not None:
            error["param"] = param
        super().__init__({"error": {**error, "next_step": next_step, **members}})


def from_rest(answer: RestAnswer, *, next_step: str | None = None) -> ToolError:
    """The resource server's refusal, unchanged, and beside it what to call next.

    Its own next step speaks of routes, ours of tools; it is enough where we know none better, and
    of limits the server alone knows how long they hold.
    """
    error = _error_of(answer)
    step = next_step or _NEXT_STEPS.get(str(error.get("code")))
    if step is None and "next_step" in error:
        return ToolError({"error": error})
    return ToolError({"error": error, "next_step": step or _ELSE})


def _error_of(answer: RestAnswer) -> dict[str, Any]:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    if isinstance(error, dict):
        return error
    return {
        "type": "rs_error",
        "code": f"http_{answer.status}",
        "message": f"The resource server answered {answer.status} without a readable error.",
    }
