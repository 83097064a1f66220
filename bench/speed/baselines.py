"""The baseline: serve the same rows with as little work as possible.

It runs on the same HTTP server with the same settings as the product. Each path of `STATEMENTS`
authenticates the token, then sends the text that one SQL statement returns. `/mcp` is the MCP SDK with
one echo tool.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast
from urllib.parse import parse_qs

import mcp_types as types
from django.db import connection  # noqa: TID251 - the baseline runs plain SQL
from django.utils import timezone
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from evidence.access import tokens
from mcp_adapter.streamable_http import McpEndpoint
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.wsgi_bridge import Receive, Scope, Send, StartResponse

STREAM_FILTER = (
    "WHERE owner_id = %(owner)s AND connection_id = %(connection_id)s AND stream = %(stream)s"
)
PAGE = f"""
SELECT '{{"data":[' || string_agg(data::text, ',') || '],"next_cursor":"'
    || min(sort_key) || ',' || min(record_key) || '"}}'
FROM (SELECT data, sort_key, record_key FROM evidence_record
      {STREAM_FILTER} AND (sort_key, record_key) < (%(before)s, %(key)s)
      ORDER BY sort_key DESC, record_key DESC LIMIT %(limit)s) page
"""  # noqa: S608 - a constant
STATEMENTS = {
    "/baseline/page": PAGE,
    "/baseline/record": (
        f"SELECT data::text FROM evidence_record {STREAM_FILTER} AND record_key = %(key)s"  # noqa: S608
    ),
    "/baseline/window": (
        "SELECT json_build_object('text', substring(data->>%(field)s from %(from)s for %(for)s))::text"  # noqa: S608
        f" FROM evidence_record {STREAM_FILTER} AND record_key = %(key)s"
    ),
    "/baseline/count": (
        f"SELECT json_build_object('count', count(*))::text FROM evidence_record {STREAM_FILTER}"  # noqa: S608
    ),
    "/baseline/months": (
        "SELECT json_object_agg(month, n)::text FROM (SELECT date_trunc('month', consent_time)"  # noqa: S608
        f" AS month, count(*) AS n FROM evidence_record {STREAM_FILTER} GROUP BY 1) months"
    ),
    "/baseline/declarations": (
        "SELECT json_agg(d.snapshot)::text FROM evidence_source s"
        " JOIN evidence_sourcedeclaration d ON d.id = s.current_declaration_id"
    ),
    "/baseline/rows": (
        "SELECT '[' || string_agg(r.data::text, ',') || ']'"
        " FROM unnest(string_to_array(%(connection_ids)s, '|'), string_to_array(%(streams)s, '|'),"
        " string_to_array(%(keys)s, '|')) AS k(id, stream, key)"
        " JOIN evidence_record r ON r.owner_id = %(owner)s AND r.connection_id = k.id"
        " AND r.stream = k.stream AND r.record_key = k.key"
    ),
}


def serve_rows(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Authenticate the token, run one statement and send its text."""
    bearer = environ["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    query = parse_qs(environ["QUERY_STRING"])
    if "cursor" in query:
        query["before"], query["key"] = ([part] for part in query["cursor"][0].split(","))
    scope = tokens.authenticate(bearer, resource="/v1", now=timezone.now())
    values = {name: _value(value) for name, (value, *_) in query.items()} | {
        "owner": scope.owner_id
    }
    try:
        raw: Any = connection.connection
        rows = raw.execute(STATEMENTS[environ["PATH_INFO"]], values, prepare=True)
        body = (rows.fetchone()[0] or "{}").encode()
    finally:
        connection.close()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


def _value(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


class EchoEndpoint:
    """An MCP endpoint with one tool that returns its argument."""

    def __init__(self) -> None:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        server: Server[Any] = Server(
            "echo",
            version="1",
            get_tool_input_schema={"echo": schema}.get,
            on_list_tools=_list,
            on_call_tool=_echo,
        )
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield


async def _list(_ctx: Any, _params: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])


async def _echo(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text"))
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def application() -> AsgiApp:
    """Return both behind the host checks and the log of the product."""
    return AsgiApp(application=serve_rows, endpoint=cast(McpEndpoint, EchoEndpoint()))
