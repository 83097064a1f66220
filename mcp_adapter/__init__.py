"""MCP server over the REST API; imports only `limits` and `record_ids` from `evidence`."""
