"""Define a tool, a call of it and its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evidence.json_text import dumps
from mcp_adapter.arguments import Argument, Arguments, input_schema, validate
from mcp_adapter.errors import AdapterError, error_from_response
from mcp_adapter.rest import NO_HEADERS, Params, Rest, RestResponse
from mcp_adapter.rest_params import connection_params, resolve_stream

READ_ONLY: Mapping[str, bool] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: its validated arguments, and access to REST on its authority."""

    arguments: Arguments
    rest: Rest
    authority: object
    public_url: str

    def get(
        self, path: str, params: Params = (), *, headers: Mapping[str, str] = NO_HEADERS
    ) -> RestResponse:
        """Return the response to a read, with any status."""
        return self.rest.get(path, params, self.authority, headers=headers)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestResponse:
        """Return the response to a write, with any status."""
        return self.rest.send(method, path, body, self.authority)

    def get_json(self, path: str, params: Params = ()) -> dict[str, Any]:
        """Return the body of a successful read. Raises ToolError for any other response."""
        return require_success(self.get(path, params))


def require_success(response: RestResponse) -> dict[str, Any]:
    """Return the body of a 200 response. Raises ToolError for any other response."""
    if response.status != 200 or isinstance(response.body, bytes):
        raise error_from_response(response)
    return response.body


def require_expandable(call: Call, *, stream: str, connection_id: str | None) -> None:
    """Raise AdapterError if the call expands a stream whose schema advertises no relation.

    The schema is read on every such call, so a changed declaration applies at once. If it cannot be
    read or does not contain the stream, REST decides.
    """
    if "expand" not in call.arguments and "expand_limit" not in call.arguments:
        return
    params = [
        ("view", "compact"),
        ("stream", stream),
        *connection_params(connection_id),
    ]
    rows = _stream_rows(call.get("/v1/schema", params), stream)
    if rows and not any(row.get("expand_capabilities") for row in rows):
        named = ", ".join(call.arguments.get("expand") or call.arguments["expand_limit"])
        raise AdapterError(
            "invalid_expand",
            f"{named[:200]!r} cannot be expanded: stream {stream} advertises no relation "
            "(expand_capabilities of GET /v1/schema).",
            param="expand" if "expand" in call.arguments else "expand_limit",
            next_step=f"Call again without expand; schema(stream={stream!r}) shows "
            "expand_capabilities.",
        )


def _stream_rows(response: RestResponse, stream: str) -> list[dict[str, Any]]:
    if response.status != 200 or isinstance(response.body, bytes):
        return []
    return [
        row
        for connector in response.body.get("connectors", [])
        for row in connector.get("streams", [])
        if row.get("name") == stream
    ]


@dataclass(frozen=True)
class Result:
    """Both channels of a successful call; `text` is one JSON object."""

    structured: dict[str, Any]
    text: str

    @cached_property
    def structured_json(self) -> str:
        """The structured output as serialized in the response."""
        return dumps(self.structured)

    @cached_property
    def text_json(self) -> str:
        """The text as serialized in the response: a JSON string with its quotes."""
        return dumps(self.text)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` raises ToolError; `annotations` are MCP's ToolAnnotations."""

    name: str
    title: str
    description: str
    arguments: Sequence[Argument]
    run: Callable[[Call], Result]
    annotations: Mapping[str, bool] = field(default_factory=lambda: READ_ONLY)

    def listing(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input_schema(self.arguments),
            "annotations": dict(self.annotations),
        }

    def __call__(
        self, raw: Mapping[str, Any], *, rest: Rest, authority: object, public_url: str
    ) -> Result:
        """Validate the arguments, then run the tool."""
        arguments = resolve_stream(validate(self.name, self.arguments, raw))
        return self.run(Call(arguments, rest, authority, public_url))
