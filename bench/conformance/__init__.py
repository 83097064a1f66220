"""Run the official MCP conformance suite against this server."""
