"""The text of a field window: the same object as the structured output."""

from typing import Any

from mcp_adapter.json_text import dumps

_LEFT_OUT = frozenset({"origin"})


def render(structured: dict[str, Any]) -> str:
    """Text, offsets, what is missing, and the ready-made arguments that read on."""
    return dumps({name: value for name, value in structured.items() if name not in _LEFT_OUT})
