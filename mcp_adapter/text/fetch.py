"""The text of a fetched document: the very document, as JSON (spec C)."""

from typing import Any

from mcp_adapter.json_text import dumps


def render(structured: dict[str, Any]) -> str:
    """The exact mirror of the structured output."""
    return dumps(structured)
