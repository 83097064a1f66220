"""The adapter as an installed Django app; it has no tables."""

from django.apps import AppConfig


class McpAdapterConfig(AppConfig):
    """Gives the adapter a place among the installed apps."""

    name = "mcp_adapter"
    verbose_name = "MCP adapter"
