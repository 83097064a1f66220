"""What one MCP endpoint offers: its instructions, its tools, its resource templates. Never changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import mcp_types as types

from mcp_adapter.json_text import dumps
from mcp_adapter.tool import Tool


@dataclass(frozen=True)
class Surface:
    """`templates` are those whose resources can be read here; none where there are none."""

    instructions: str
    tools: Mapping[str, Tool]
    templates: Sequence[types.ResourceTemplate] = ()

    @cached_property
    def listed(self) -> str:
        """`{"tools": […]`, without the closing brace."""
        return dumps({"tools": [tool.listing() for tool in self.tools.values()]})[:-1]
