"""The normal read surface: six tools, in the order in which they are listed."""

from mcp_adapter import resources
from mcp_adapter.instructions import INSTRUCTIONS
from mcp_adapter.surface import Surface
from mcp_adapter.tools import aggregate, fetch, query_records, read_record_field, schema, search

TOOLS = {
    module.TOOL.name: module.TOOL
    for module in (schema, query_records, aggregate, search, fetch, read_record_field)
}

READ = Surface(INSTRUCTIONS, TOOLS, resources.TEMPLATES)
