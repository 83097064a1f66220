"""The path of one request stays short, and docs/life-of-a-request.md shows it as it is.

WRITE_DOCS=1 writes the path and the statements into the page.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from textwrap import fill

import pytest
from django.utils import timezone

from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import READ_SURFACE
from operations.management.commands.trace import RequestTrace, trace_request
from tests.world import World

MAX_MODULES = {"list": 15, "query_records": 19, "fetch": 19, "search": 33}


def list_records(scope: Scope) -> object:
    return InProcessRest().get("/v1/streams/messages/records", [("limit", "5")], scope)


def call_tool(name: str, **arguments: object) -> Callable[[Scope], object]:
    return lambda scope: READ_SURFACE.tools[name](
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
    assert len(trace(world, name).modules) <= MAX_MODULES[name]


def test_a_trace_lists_modules_in_order_and_statements_with_their_time(world: World) -> None:
    traced = trace(world, "list")
    assert traced.modules[0].startswith(("mcp_adapter.inprocess", "evidence.api"))
    assert traced.statements
    assert all(sql and seconds > 0 for sql, seconds in traced.statements)


PAGE = Path(__file__).parents[2] / "docs/life-of-a-request.md"
wrap = partial(fill, width=150, break_long_words=False, break_on_hyphens=False)
BLOCK = re.compile(r"```text\n(.*?)```", re.DOTALL)
HINT = "Write the page again: WRITE_DOCS=1 .venv/bin/python -m pytest -n0 tests/operations/test_request_trace.py"


@pytest.fixture
def search_trace(world: World) -> RequestTrace:
    """Return the trace of the search of the page, with the look-up of its token."""

    def search() -> object:
        scope = authenticate(world.tokens["bob"], resource="/v1", now=timezone.now())
        return REQUESTS["search"](scope)

    search()
    return trace_request(search)


def test_page_shows_the_path_and_the_statements_of_a_search(search_trace: RequestTrace) -> None:
    text = PAGE.read_text()
    if os.environ.get("WRITE_DOCS"):
        blocks = iter(
            (
                "".join(f"{line}\n" for line in search_trace.path()),
                "\n".join(f"{wrap(line)}\n" for line in search_trace.statement_lines()),
            )
        )
        text = BLOCK.sub(lambda _: f"```text\n{next(blocks)}```", text)
        PAGE.write_text(text)
    path, statements = BLOCK.findall(text)

    shown = {tuple(line.split(": ")) for line in path.splitlines()}
    assert shown - search_trace.functions == set(), HINT
    executed = search_trace.statement_lines()
    for statement in statements.split("\n\n"):
        assert " ".join(statement.split()) in executed, f"{statement}\n{HINT}"
    assert len(shown) > 30
    assert statements.count("\n\n") >= 4


def test_page_names_modules_and_functions_that_exist() -> None:
    prose = BLOCK.sub("", PAGE.read_text())
    names = re.findall(r"`((?:pdpp_site|mcp_adapter|evidence)\.[\w.]+)`", prose)

    assert len(names) > 10
    for name in names:
        module, _, function = name.rpartition(".")
        assert hasattr(import_module(module), function), name
