"""The path of one request stays short: how many modules it enters, from the view or tool down."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.utils import timezone

from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from mcp_adapter import surfaces
from mcp_adapter.inprocess import InProcessRest
from operations.management.commands.trace import RequestTrace, trace_request
from tests.world import World

MAX_MODULES = {"list": 18, "query_records": 24, "fetch": 25, "search": 40}
MORE_ON_A_CLUSTER = {"search": 2}  # small streams are searched with statements of their own


def list_records(scope: Scope) -> object:
    return InProcessRest().get("/v1/streams/messages/records", [("limit", "5")], scope)


def call_tool(name: str, **arguments: object) -> Callable[[Scope], object]:
    return lambda scope: surfaces.READ_SURFACE.tools[name](
        arguments, rest=InProcessRest(), authority=scope, public_url="http://127.0.0.1:8000"
    )


REQUESTS = {
    "list": list_records,
    "query_records": call_tool("query_records", stream="messages", limit=5),
    "fetch": call_tool("fetch", id="cin_personal/messages:m3"),
    "search": call_tool("search", q="lease"),
}


def trace(world: World, name: str) -> RequestTrace:
    scope = authenticate(world.tokens["bob"], resource="/v1", now=timezone.now())
    REQUESTS[name](scope)  # caches are filled before the measured request
    return trace_request(lambda: REQUESTS[name](scope))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_enters_few_modules(world: World, name: str) -> None:
    most = MAX_MODULES[name]
    if settings.PDPP_DISTRIBUTED:
        most += MORE_ON_A_CLUSTER.get(name, 0)

    assert len(trace(world, name).modules) <= most


def test_a_trace_lists_modules_in_order_and_statements_with_their_time(world: World) -> None:
    traced = trace(world, "list")
    assert traced.modules[0].startswith(("mcp_adapter.inprocess", "evidence.api"))
    assert traced.statements
    assert all(sql and seconds > 0 for sql, seconds in traced.statements)
