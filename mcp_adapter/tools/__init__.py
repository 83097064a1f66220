"""The tools of `/mcp`, one module for each."""
