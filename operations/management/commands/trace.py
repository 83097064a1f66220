"""``manage.py trace``: print the path of one request over the demo data.

The trace shows modules in order, calls and SQL statements. It starts at the REST view or at the MCP
tool, so it does not count the HTTP server, Django's middleware or the look-up of the token.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone
from typing_extensions import override

from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from mcp_adapter import surfaces
from mcp_adapter.inprocess import InProcessRest
from operations import demo_data

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


STATEMENT_CHARS = 100


class Command(BaseCommand):
    help = (
        "Print the modules, calls and statements of one request over the demo data. "
        "Examples: trace search q=invoice, trace /v1/search q=invoice. Nothing is stored."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", help="A tool of /mcp, such as search, or a path under /v1.")
        parser.add_argument("arguments", nargs="*", metavar="name=value")

    @override
    def handle(self, *args: Any, target: str, arguments: list[str], **options: Any) -> None:
        given = dict(_pair(argument) for argument in arguments)
        now = timezone.now()
        with transaction.atomic():
            bearers = demo_data.create_demo_tokens(now)
            if bearers is None:
                raise CommandError("There is no demo data here. Run: manage.py seed")
            if target.startswith("/v1"):
                scope = authenticate(bearers.rest, resource="/v1", now=now)
                trace = _trace_path(target, given, scope)
            else:
                scope = authenticate(bearers.mcp, resource="/mcp", now=now)
                trace = _trace_tool(target, given, scope)
            transaction.set_rollback(True)
        self._print(trace)

    def _print(self, trace: RequestTrace) -> None:
        for number, (module, calls) in enumerate(trace.calls.items(), 1):
            self.stdout.write(f"{number:4}  {module}  {calls}")
        self.stdout.write("")
        for sql, seconds in trace.statements:
            self.stdout.write(
                f"{seconds * 1000:8.2f} ms  {' '.join(sql.split())[:STATEMENT_CHARS]}"
            )
        self.stdout.write(
            f"\n{len(trace.calls)} modules, {sum(trace.calls.values())} calls, "
            f"{trace.module_changes} changes of module, {len(trace.statements)} statements"
        )


def _trace_path(path: str, params: Mapping[str, str], scope: Scope) -> RequestTrace:
    rest = InProcessRest()
    return trace_request(lambda: rest.get(path, list(params.items()), scope))


def _trace_tool(name: str, given: Mapping[str, Any], scope: Scope) -> RequestTrace:
    tools = surfaces.READ_SURFACE.tools
    if name not in tools:
        raise CommandError(f"Unknown tool {name}. Tools: {', '.join(tools)}.")
    arguments = {key: _parsed(value) for key, value in given.items()}
    return trace_request(
        lambda: tools[name](
            arguments,
            rest=InProcessRest(),
            authority=scope,
            public_url=settings.PDPP_PUBLIC_URL,
        )
    )


def _pair(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    if not equals:
        raise CommandError(f"{argument!r} is not name=value.")
    return name, value


def _parsed(value: str) -> int | str | list[str]:
    """Return integers as such, and lists for values in brackets: fields=[id,subject]."""
    if value.startswith("[") and value.endswith("]"):
        return value[1:-1].split(",")
    return int(value) if value.isdecimal() else value
