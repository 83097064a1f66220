"""Trace one request through this project's code: modules in order, calls, SQL statements.

The trace starts at the REST view or at the MCP tool, so it does not count the HTTP server, Django's
middleware or the look-up of the token.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from django.db import connection

PACKAGES = frozenset({"evidence", "mcp_adapter", "operations", "owner", "importers", "pdpp_site"})


@dataclass(slots=True)
class RequestTrace:
    """What one request went through. `statements` are pairs of SQL text and seconds."""

    calls: dict[str, int] = field(default_factory=dict)
    """Number of calls per module, in the order in which the request entered the modules."""
    module_changes: int = 0
    statements: list[tuple[str, float]] = field(default_factory=list)

    @property
    def modules(self) -> list[str]:
        return list(self.calls)


def trace_request(request: Callable[[], object]) -> RequestTrace:
    """Run `request` in this thread and return its trace."""
    trace = RequestTrace()
    with _profiled(trace), connection.execute_wrapper(_statement_timer(trace)):
        request()
    return trace


@contextmanager
def _profiled(trace: RequestTrace) -> Iterator[None]:
    current = ""

    def on_event(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal current
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in PACKAGES or module == __name__:
            return
        trace.calls[module] = trace.calls.get(module, 0) + 1
        trace.module_changes += module != current
        current = module

    previous = sys.getprofile()
    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(previous)
        threading.setprofile(previous)


def _statement_timer(trace: RequestTrace) -> Callable[..., Any]:
    def execute(run: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - Django's signature
        started = time.perf_counter()
        try:
            return run(sql, params, many, context)
        finally:
            trace.statements.append((str(sql), time.perf_counter() - started))

    return execute
