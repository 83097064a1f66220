"""Django app configuration of the adapter, which has no tables."""

from django.apps import AppConfig


class McpAdapterConfig(AppConfig):
    """Django app `mcp_adapter`."""

    name = "mcp_adapter"
    verbose_name = "MCP adapter"
