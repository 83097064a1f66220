"""Find JSON-RPC messages that are invalid requests and that the SDK would not answer as such."""

from typing import Any

import mcp_types as types
import orjson
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

_INVALID_ID = "A request id must be a string or an integer."


def error_body(code: int, message: str, *, request_id: object = None) -> dict[str, Any]:
    """Return a JSON-RPC error response."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def check_body(content: bytes, *, version_header: str | None) -> dict[str, Any] | None:
    """Return the error of a request over HTTP, or None. The SDK answers what is no JSON object.

    The SDK takes a request with an invalid id for a notification, and a request of protocol
    2026-07-28 under the header of another revision, or without one, for one of an older revision.
    """
    try:
        message = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        return None
    request_id = message["id"]
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        return error_body(types.INVALID_REQUEST, _INVALID_ID)
    named = _named_version(message)
    if named in MODERN_PROTOCOL_VERSIONS and version_header != named:
        wrong = "is missing" if version_header is None else "does not match the body"
        text = f"The header MCP-Protocol-Version {wrong}: the body names {named}."
        return error_body(types.HEADER_MISMATCH, text, request_id=request_id)
    return None


def _named_version(message: dict[str, Any]) -> object:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(types.PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None


def check_line(line: SessionMessage | Exception) -> SessionMessage | None:
    """Return the error of one line of standard input, or None.

    The SDK takes a request with an invalid id for a notification; those of MCP have names of their
    own.
    """
    if isinstance(line, ValidationError):
        is_json = line.errors(include_url=False)[0]["type"] != "json_invalid"
        if is_json:
            return _error_line(types.INVALID_REQUEST, "The line is no JSON-RPC message.")
        return _error_line(types.PARSE_ERROR, "The line is no JSON.")
    if isinstance(line, Exception) or not isinstance(line.message, types.JSONRPCNotification):
        return None
    is_notification = line.message.method.startswith("notifications/")
    return None if is_notification else _error_line(types.INVALID_REQUEST, _INVALID_ID)


def _error_line(code: int, message: str) -> SessionMessage:
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error))
