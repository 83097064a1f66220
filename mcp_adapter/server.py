"""The MCP server: the tools and resource templates of one surface, no prompts, no state.

It is the SDK's low-level server with results in the form of the wire: `tools/list` never changes, and
what a tool answers is written once, so that the SDK does not validate, copy and write it again.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_adapter import metrics, resources
from mcp_adapter.errors import AdapterError, ToolError
from mcp_adapter.http_responses import handed_over
from mcp_adapter.json_text import dumps
from mcp_adapter.metrics import Outcome, Spanned, unspanned
from mcp_adapter.rest import Refused, Rest
from mcp_adapter.surfaces import READ, Surface
from mcp_adapter.tool import Result, Tool

Answered = TypeVar("Answered")
Context: TypeAlias = ServerRequestContext[Any, Any]
Offload: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking function off the event loop and gives its value."""

_log = logging.getLogger(__name__)
_LIST_TTL_MS = 300_000
_RESOURCE_NOT_FOUND = -32002


@dataclass(frozen=True, slots=True)
class Identity:
    """What the server says of itself, and where its record pages are."""

    public_url: str
    name: str = "pdpp"
    title: str = "Personal data"
    version: str = ""


@dataclass(frozen=True, slots=True)
class _Adapter:
    """One surface over one resource server. `authority_of` may block and may raise `Refused`."""

    rest: Rest
    authority_of: Callable[[Context], object]
    offload: Offload
    identity: Identity
    surface: Surface
    spanned: Spanned

    async def call_tool(self, ctx: Context, params: Mapping[str, Any]) -> str:
        """The members of the result, as JSON without the closing brace."""
        tools = self.surface.tools
        tool = tools.get(params["name"])
        if tool is None:
            metrics.unknown(self.spanned)
            raise MCPError(
                code=types.INVALID_PARAMS, message=f"Unknown tool. Tools: {', '.join(tools)}"
            )
        with metrics.measured(tool.name, self.spanned) as outcome:
            return await self._called(ctx, tool, params.get("arguments") or {}, outcome)

    async def _called(
        self, ctx: Context, tool: Tool, arguments: Mapping[str, Any], outcome: Outcome
    ) -> str:
        try:
            result = await self.offload(
                lambda: tool(
                    arguments,
                    rest=self.rest,
                    authority=self.authority_of(ctx),
                    public_url=self.identity.public_url,
                )
            )
        except Refused as refused:
            outcome.word = "refused"
            return _failure(ToolError({"error": refused.error}))
        except ToolError as error:
            outcome.word = "refused"
            return _failure(error)
        except Exception:  # noqa: BLE001 - the model gets an answer, the log the reason
            outcome.word = "failed"
            # The traceback goes to the log; the model learns that it was not its fault.
            _log.exception("tool %s failed", tool.name)
            return _failure(_internal(tool.name))
        return _success(result)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if not self.surface.templates:
            raise MCPError(code=types.INVALID_PARAMS, message="No resources are read here.")
        try:
            contents = await self.offload(
                lambda: resources.read(str(params.uri), self.rest, self.authority_of(ctx))
            )
        except Refused as refused:
            raise MCPError(
                code=types.INVALID_REQUEST,
                message=str(refused.error.get("message")),
                data={"error": refused.error},
            ) from None
        except ToolError as error:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            raise MCPError(
                code=types.INVALID_PARAMS if modern else _RESOURCE_NOT_FOUND,
                message=str(error.body["error"].get("message")),
                data=error.body,
            ) from None
        return types.ReadResourceResult(contents=contents)

    async def templates(self, _ctx: Context, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(self.surface.templates))


def build_server(
    rest: Rest,
    *,
    authority_of: Callable[[Context], object],
    offload: Offload,
    identity: Identity,
    surface: Surface = READ,
    spanned: Spanned = unspanned,
) -> Server[Any]:
    """The server of a surface, for HTTP and stdio alike."""
    adapter = _Adapter(rest, authority_of, offload, identity, surface, spanned)
    server: Server[Any] = Server(
        identity.name,
        version=identity.version,
        title=identity.title,
        instructions=surface.instructions,
        cache_hints={
            "server/discover": CacheHint(_LIST_TTL_MS),
            "tools/list": CacheHint(_LIST_TTL_MS),
            "prompts/list": CacheHint(_LIST_TTL_MS),
            "resources/list": CacheHint(_LIST_TTL_MS),
            "resources/templates/list": CacheHint(_LIST_TTL_MS),
            "resources/read": CacheHint(0),
        },
        # No argument is mirrored into a header, so there is no schema to look through.
        get_tool_input_schema=lambda _name: None,
        on_list_tools=_unreached,
        on_call_tool=_unreached,
        on_list_resources=_no_resources,
        on_list_resource_templates=adapter.templates,
        on_read_resource=adapter.read_resource,
        on_list_prompts=_no_prompts,
        on_get_prompt=_no_prompt,
    )
    server.middleware.append(_own_results(adapter, server))
    return server


def _own_results(adapter: _Adapter, server: Server[Any]) -> ServerMiddleware[Any]:
    """Answer the tool methods here; the SDK still checks what came in."""

    endings = {method: _ending(method, server) for method in ("tools/list", "tools/call")}

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method not in {"tools/list", "tools/call"} or ctx.request_id is None:
            return await call_next(ctx)
        methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
        params = ctx.params or {}
        if ctx.method == "tools/call":
            own = await adapter.call_tool(ctx, params)
        else:
            own = _tools_list(adapter.surface, params)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        raw = own + (endings[ctx.method] if modern else "}")
        return handed_over(raw, ctx.request.scope if ctx.request is not None else None)

    return answer


def _ending(method: str, server: Server[Any]) -> str:
    """What every result of 2026-07-28 carries, and the closing brace."""
    cached = {"ttlMs": _LIST_TTL_MS, "cacheScope": "private"} if method == "tools/list" else {}
    stamp = {types.SERVER_INFO_META_KEY: server.server_info_stamp}
    return f",{dumps({**cached, 'resultType': 'complete', '_meta': stamp})[1:]}"


def _tools_list(surface: Surface, params: Mapping[str, Any]) -> str:
    if params.get("cursor") is not None:
        raise MCPError(code=types.INVALID_PARAMS, message="Invalid cursor: the list has one page")
    return surface.listed


def _success(result: Result) -> str:
    return _written(result.text_json, result.structured_json, failed="false")


def _failure(error: ToolError) -> str:
    body = dumps(error.body)
    return _written(dumps(body), body, failed="true")


def _written(text: str, structured: str, *, failed: str) -> str:
    return (
        f'{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{structured},'
        f'"isError":{failed}'
    )


def _internal(tool: str) -> AdapterError:
    return AdapterError(
        "tool_handler_error",
        f"{tool} failed inside the server.",
        next_step="Call it once more; if it fails again, tell the owner of the server.",
    )


async def _unreached(_ctx: Context, _params: Any) -> Any:
    """Makes the SDK advertise the tools; the middleware answers before it."""
    raise MCPError(code=types.INTERNAL_ERROR, message="Not reached")


async def _no_resources(_ctx: Context, _params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


async def _no_prompts(_ctx: Context, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[])


async def _no_prompt(_ctx: Context, _params: Any) -> types.GetPromptResult:
    raise MCPError(code=types.INVALID_PARAMS, message="Unknown prompt: this server has none")
