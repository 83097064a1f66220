"""Hosts of three kinds, and a program that reads REST itself, each as what its model gets to see."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
import mcp_types as types
from mcp import Client

CLIP = 12_000
KINDS = ("content", "structured", "clipped")


class Host(Protocol):
    """Whoever asks on behalf of a model."""

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return what the model sees of the result."""
        ...


@dataclass
class Counted:
    """A host that counts: calls, bytes, and everything shown so far."""

    host: Host
    shown: list[str] = field(default_factory=list)

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """As the host does."""
        view = await self.host.ask(tool, arguments)
        self.shown.append(view)
        return view

    @property
    def calls(self) -> int:
        return len(self.shown)

    @property
    def seen_bytes(self) -> int:
        return sum(len(view.encode()) for view in self.shown)

    @property
    def seen(self) -> str:
        return "\n".join(self.shown)


@dataclass(frozen=True, slots=True)
class McpHost:
    """An MCP host that shows its model one channel, or a clipped one."""

    client: Client
    kind: str

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What this kind of host makes of the result."""
        result = await self.client.call_tool(tool, dict(arguments))
        if self.kind == "content":
            (block,) = result.content
            assert isinstance(block, types.TextContent)  # noqa: S101 - the surface promises it
            return block.text
        whole = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
        if self.kind == "structured" or len(whole) <= CLIP:
            return whole
        return f"{whole[: CLIP // 2]}…{whole[-CLIP // 2 :]}"


@dataclass(frozen=True, slots=True)
class RestHost:
    """A program that reads REST with its defaults, so as to compare."""

    http: httpx2.AsyncClient

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The bodies of the routes behind the tools."""
        path, params = _route(tool, dict(arguments))
        answer = await self.http.get(path, params=tuple(params))
        return answer.text


def _route(tool: str, given: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    if tool == "fetch":
        connection, _, rest = given["id"].partition("/")
        stream, _, key = rest.partition(":")
        return f"/v1/streams/{stream}/records/{key}", [("connection_id", connection)]
    if tool == "aggregate":
        stream = given.pop("stream")
        return f"/v1/streams/{stream}/aggregate", list(_flat(given))
    if tool == "schema":
        return "/v1/schema", list(_flat(given))
    return "/v1/search", list(_flat(given))


def _flat(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in given.items():
        if not isinstance(value, Mapping):
            pairs.append((name, str(value)))
            continue
        for key, inner in value.items():
            if isinstance(inner, Mapping):
                pairs += [(f"{name}[{key}][{op}]", str(bound)) for op, bound in inner.items()]
            else:
                pairs.append((f"{name}[{key}]", str(inner)))
    return pairs
