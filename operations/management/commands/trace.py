"""``manage.py trace``: print the path of one request over the demo data.

The trace shows modules in order, calls and SQL statements. It starts with the look-up of the token,
so it does not count the HTTP server and Django's middleware.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone
from typing_extensions import override

from evidence.access.tokens import authenticate
from evidence.management.owner_command import OwnerCommand
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import READ_SURFACE
from operations import demo_data

PACKAGES = frozenset({"evidence", "mcp_adapter", "operations", "owner", "importers", "pdpp_site"})


@dataclass(slots=True)
class RequestTrace:
    """What one request went through. `statements` are pairs of SQL text and seconds."""

    calls: dict[str, int] = field(default_factory=dict)
    """Number of calls per module, in the order in which the request entered the modules."""
    entries: dict[str, str] = field(default_factory=dict)
    """The function through which the request first entered each module."""
    functions: set[tuple[str, str]] = field(default_factory=set)
    """Module and qualified name of each function that was called."""
    module_changes: int = 0
    statements: list[tuple[str, float]] = field(default_factory=list)

    @property
    def modules(self) -> list[str]:
        return list(self.calls)

    def path(self) -> list[str]:
        """Return a line for each module: its name, and the function that the request entered first."""
        return [f"{module}: {self.entries.get(module, '')}" for module in self.calls]

    def statement_lines(self, max_chars: int | None = None) -> list[str]:
        """Return each statement in one line, cut to `max_chars`, without savepoints."""
        lines = [" ".join(sql.split()) for sql, _ in self.statements]
        return [
            f"{line[:max_chars]} …" if max_chars and len(line) > max_chars else line
            for line in lines
            if "SAVEPOINT" not in line
        ]


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
        function = frame.f_code.co_qualname
        if "<" not in function:  # comprehensions and lambdas
            trace.entries.setdefault(module, function)
            trace.functions.add((module, function))
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


STATEMENT_CHARS = 300


class Command(OwnerCommand):
    help = (
        "Print the modules, calls and statements of one request over the demo data. "
        "Examples: trace search q=invoice, trace /v1/search q=invoice. Nothing is stored."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", help="A tool of /mcp, such as search, or a path under /v1.")
        parser.add_argument("arguments", nargs="*", metavar="name=value")
        parser.add_argument("--whole", action="store_true", help="Print whole statements.")

    @override
    def handle(
        self, *args: Any, target: str, arguments: list[str], whole: bool, **options: Any
    ) -> None:
        given = dict(_pair(argument) for argument in arguments)
        now = timezone.now()
        with transaction.atomic():
            bearers = demo_data.create_demo_tokens(now)
            if bearers is None:
                raise CommandError("There is no demo data here. Run: manage.py seed")
            if target.startswith("/v1"):
                trace = _trace_path(target, given, bearers.rest, now)
            else:
                trace = _trace_tool(target, given, bearers.mcp, now)
            transaction.set_rollback(True)
        self._print(trace, max_chars=None if whole else STATEMENT_CHARS)

    def _print(self, trace: RequestTrace, *, max_chars: int | None) -> None:
        for number, (line, calls) in enumerate(
            zip(trace.path(), trace.calls.values(), strict=True), 1
        ):
            self.stdout.write(f"{number:4}  {line}  {calls}")
        times = [seconds for sql, seconds in trace.statements if "SAVEPOINT" not in sql]
        for line, seconds in zip(trace.statement_lines(max_chars), times, strict=True):
            self.stdout.write(f"\n{seconds * 1000:.2f} ms  {line}")
        self.stdout.write(
            f"\n{len(trace.calls)} modules, {sum(trace.calls.values())} calls, "
            f"{trace.module_changes} changes of module, {len(times)} statements"
        )


def _trace_path(path: str, params: Mapping[str, str], bearer: str, now: datetime) -> RequestTrace:
    rest = InProcessRest()
    return trace_request(
        lambda: rest.get(path, list(params.items()), authenticate(bearer, resource="/v1", now=now))
    )


def _trace_tool(name: str, given: Mapping[str, Any], bearer: str, now: datetime) -> RequestTrace:
    tools = READ_SURFACE.tools
    if name not in tools:
        raise CommandError(f"Unknown tool {name}. Tools: {', '.join(tools)}.")
    arguments = {key: _parsed(value) for key, value in given.items()}
    return trace_request(
        lambda: tools[name](
            arguments,
            rest=InProcessRest(),
            authority=authenticate(bearer, resource="/mcp", now=now),
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
