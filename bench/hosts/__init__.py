"""Sign in and call tools with real MCP hosts, whose model is a script."""
