"""The MCP surface over the REST evidence API: it imports nothing of `evidence` but the limits."""
