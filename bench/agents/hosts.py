"""Simulate what a model sees of tool results in three kinds of MCP hosts and over REST."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
import mcp_types as types
from mcp import Client

MAX_CHARS = 12_000
KINDS = ("content", "structured", "clipped")


class Host(Protocol):
    """Calls tools on behalf of a model."""

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return the text that the model sees."""
        ...


@dataclass
class CountingHost:
    """Records the texts that another host shows, and counts calls and bytes."""

    host: Host
    views: list[str] = field(default_factory=list)

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        view = await self.host.ask(tool, arguments)
        self.views.append(view)
        return view

    @property
    def calls(self) -> int:
        return len(self.views)

    @property
    def seen_bytes(self) -> int:
        return sum(len(view.encode()) for view in self.views)

    @property
    def seen(self) -> str:
        return "\n".join(self.views)


@dataclass(frozen=True, slots=True)
class McpHost:
    """An MCP host that shows its model one channel of a result, complete or clipped."""

    client: Client
    kind: str

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        result = await self.client.call_tool(tool, dict(arguments))
        if self.kind == "content":
            (block,) = result.content
            assert isinstance(block, types.TextContent)  # noqa: S101 - the surface promises it
            return block.text
        text = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
        if self.kind == "structured" or len(text) <= MAX_CHARS:
            return text
        return f"{text[: MAX_CHARS // 2]}…{text[-MAX_CHARS // 2 :]}"


@dataclass(frozen=True, slots=True)
class RestHost:
    """A program that reads REST with default parameters, for comparison."""

    http: httpx2.AsyncClient

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        path, params = _route(tool, dict(arguments))
        response = await self.http.get(path, params=tuple(params))
        return response.text


def _route(tool: str, arguments: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    if tool == "fetch":
        connection, _, rest = arguments["id"].partition("/")
        stream, _, key = rest.partition(":")
        return f"/v1/streams/{stream}/records/{key}", [("connection_id", connection)]
    if tool == "aggregate":
        stream = arguments.pop("stream")
        return f"/v1/streams/{stream}/aggregate", list(_flatten(arguments))
    if tool == "query_records":
        return f"/v1/streams/{arguments.pop('stream')}/records", list(_flatten(arguments))
    if tool == "schema":
        return "/v1/schema", list(_flatten(arguments))
    return "/v1/search", list(_flatten(arguments))


def _flatten(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        if not isinstance(value, Mapping):
            pairs.append((name, ",".join(value) if isinstance(value, list) else str(value)))
            continue
        for key, inner in value.items():
            if isinstance(inner, Mapping):
                pairs += [(f"{name}[{key}][{op}]", str(bound)) for op, bound in inner.items()]
            elif isinstance(inner, list):
                pairs += [(f"{name}[{key}][in]", str(each)) for each in inner]
            else:
                pairs.append((f"{name}[{key}]", str(inner)))
    return pairs
