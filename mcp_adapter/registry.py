"""The six tools, in the order in which they are listed."""

from mcp_adapter.tools import aggregate, fetch, query_records, read_record_field, schema, search

TOOLS = {
    module.TOOL.name: module.TOOL
    for module in (schema, query_records, aggregate, search, fetch, read_record_field)
}
