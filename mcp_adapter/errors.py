"""Tool errors: those of the adapter and those that REST returned, each with the next step.

Each reaches the client as one JSON object, the same in `content[]` and in `structuredContent`. The
error object of REST passes unchanged; a next step is added beside it.
"""

import re
from typing import Any

from mcp_adapter.rest import RestResponse

_CONNECT_AGAIN = (
    "Ask the owner to connect this app again; where it runs pdpp mcp, with pdpp connect."
)
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
    "grant_consumed": _CONNECT_AGAIN,
    "grant_expired": _CONNECT_AGAIN,
    "grant_paused": "Ask the owner to resume this app; then call again.",
    "grant_revoked": _CONNECT_AGAIN,
    "grant_stream_not_allowed": "Call schema for the streams this grant covers.",
    "invalid_cursor": "Call again without cursor to start from the first page.",
    "invalid_expand": "Call schema(stream) for the relations that can be expanded.",
    "invalid_sort": "Call schema(stream) for the fields that can be sorted by.",
    "not_found": "Call search or query_records for current ids, or schema for stream names.",
    "query_not_found": "Call read_record_field without q to read from the start.",
    "unknown_field": "Call schema(stream) for the field names.",
}
_DEFAULT_NEXT_STEP = (
    "Call schema to see what this grant allows, then call again with other arguments."
)


class ToolError(Exception):
    """A failed tool call; `body` is the content of both channels."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        super().__init__(str(body["error"].get("code")))


class AdapterError(ToolError):
    """An error of the adapter itself. Never quote record text or a credential in it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_step: str,
        param: str | None = None,
        **members: Any,
    ) -> None:
        error = {"type": "adapter_error", "code": code, "message": message}
        if param is not None:
            error["param"] = param
        super().__init__({"error": {**error, "next_step": next_step, **members}})


def error_from_response(response: RestResponse, *, next_step: str | None = None) -> ToolError:
    """Build the tool error of a REST error response.

    REST's texts name routes and query parameters: they are put in terms of tools, except in
    `invalid_expand`, which names GET /v1/schema. A next step is added where one is known.
    """
    error = response.body.get("error") if isinstance(response.body, dict) else None
    if not isinstance(error, dict):
        error = {
            "type": "rs_error",
            "code": f"http_{response.status}",
            "message": f"The resource server answered {response.status} without a readable error.",
        }
    if error.get("code") != "invalid_expand":
        error = {name: _in_tool_terms(value) for name, value in error.items()}
    known_step = None if "ask_url" in error else _NEXT_STEPS.get(str(error.get("code")))
    step = next_step or known_step
    if step is None and "next_step" in error:
        return ToolError({"error": error})
    return ToolError({"error": error, "next_step": step or _DEFAULT_NEXT_STEP})


_SCHEMA_OF_STREAM = re.compile(r"GET /v1/schema\?stream=([^\s&]+)(?:&\S+)?")
_ARRAY_PARAMETER = re.compile(r"\b(streams|fields)\[\](?:=\w+)?")


def _in_tool_terms(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = _SCHEMA_OF_STREAM.sub(r"schema(stream=\1)", value)
    return _ARRAY_PARAMETER.sub(r"\1", text.replace("GET /v1/schema", "schema"))
