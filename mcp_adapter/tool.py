"""Define a tool, a call of it, its result, and the byte budget of both channels of a result.

All sizes are UTF-8 bytes as serialized in the response. REST cuts pages to fit a budget;
`evidence.page_cutter` decides what is cut.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from evidence import limits
from evidence.item_lines import describe_read
from evidence.json_text import dumps, json_size, wire_size
from evidence.page_cutter import largest_that_fits, shrink_hit, shrink_record
from mcp_adapter.arguments import (
    Arguments,
    ToolArguments,
    connection_params,
    validate,
)
from mcp_adapter.errors import AdapterError, error_from_response
from mcp_adapter.rest import NO_HEADERS, Params, Rest, RestResponse
from mcp_adapter.targets import resolve_stream

Body: TypeAlias = dict[str, Any]

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
    arguments: type[ToolArguments]
    run: Callable[[Call], Result]
    annotations: Mapping[str, bool] = field(default_factory=lambda: READ_ONLY)

    def listing(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.arguments.input_schema(),
            "annotations": dict(self.annotations),
        }

    def __call__(
        self, raw: Mapping[str, Any], *, rest: Rest, authority: object, public_url: str
    ) -> Result:
        """Validate the arguments, then run the tool."""
        arguments: Arguments = validate(self.name, self.arguments, raw)
        if str(arguments.get("stream", "")).startswith("pdpp:"):
            arguments = resolve_stream(arguments)
        return self.run(Call(arguments, rest, authority, public_url))


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum size of each channel of a result."""

    structured: int
    text: int

    def allows(self, result: Result) -> bool:
        """Return whether both channels of the result are within the budget."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE_BUDGET = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH_BUDGET = Budget(limits.SEARCH_STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE_BUDGET = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ_BUDGET = Budget(limits.READ_BYTES, limits.READ_BYTES)


def max_bytes_argument(default: Budget) -> tuple[str, Any]:
    """Define `max_bytes`; the description states its unit, bounds and default."""
    size = f"{limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST}; default {default.text}"
    if default.text != default.structured:
        size = (
            f"to {limits.MAX_BYTES_MOST}; default, least: {default.text} text, "
            f"{default.structured} structured"
        )
    bounds = Field(
        description=f"Bytes per channel, {size}",
        ge=limits.MAX_BYTES_LEAST,
        le=limits.MAX_BYTES_MOST,
    )
    return "max_bytes", Annotated[int | None, bounds]


def requested_budget(arguments: Arguments, *, default: Budget) -> Budget:
    """Return the default, or `max_bytes` for each channel.

    Both channels show the same page, so where their defaults differ, each is also the least: less
    room for one channel would show less in the other than its default does.
    """
    total = arguments.get("max_bytes")
    if total is None:
        return default
    if default.text == default.structured:
        return Budget(total, total)
    return Budget(max(total, default.structured), max(total, default.text))


_ORIGIN_BYTES = 140
"""Maximum size of the origin mark of a page."""


def limit_params(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """Return the REST parameters that bound a page, given both channels without any item."""
    max_bytes = budget.structured - json_size(structured) - _ORIGIN_BYTES
    max_line_bytes = budget.text - wire_size(dumps(text))
    return [limit_param("max_bytes", max_bytes), limit_param("max_line_bytes", max_line_bytes)]


def limit_param(name: str, max_bytes: int) -> tuple[str, str]:
    """Return one REST size parameter, clamped to the range that REST accepts."""
    return name, str(min(max(max_bytes, limits.PAGE_BYTES_LEAST), limits.MAX_BYTES_MOST))


def read_page(
    request: Callable[[Params], Body],
    params: Params,
    *,
    build: Callable[[Body], Result],
    budget: Budget,
) -> Result:
    """Request a page and build its result.

    A server that ignores the byte limits is asked again for as many items as fit. A single item that
    still exceeds the budget is shrunk. Raises AdapterError if the page cannot be made to fit.
    """
    body = request(params)
    result = build(body)
    if budget.allows(result):
        return result
    if len(body["data"]) > 1:
        first_items = largest_that_fits(
            len(body["data"]) - 1,
            render=lambda count: {**body, "data": body["data"][:count]},
            fits=lambda page: budget.allows(build(page)),
        )
        count = max(len(first_items["data"]) if first_items else 0, 1)
        others = [(name, value) for name, value in params if name != "limit"]
        body = request([*others, ("limit", str(count))])
        if budget.allows(result := build(body)):
            return result
    return _shrunk(body, build=build, budget=budget)


def _shrunk(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """Return the page with its only item shrunk, without links, which repeat the cursor."""
    body = {**body, "links": {}} if "links" in body else body
    if len(body["data"]) == 1:
        shared = body.get("shared", {})
        item = {**shared, **body["data"][0]}

        def page(item: Body) -> Body:
            shown = {name: value for name, value in item.items() if name not in shared}
            return {**body, "data": [shown]}

        def fits(item: Body) -> bool:
            return budget.allows(build(page(item)))

        shrunk = (
            shrink_hit(item, fits)
            if "evidence_excerpts" in item
            else shrink_record(item, fits, describe_read=describe_read)
        )
        if fits(shrunk):
            return build(page(shrunk))
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
