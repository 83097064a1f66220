"""Prometheus metrics of tool calls: count, outcome and duration."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from prometheus_client import Counter, Histogram

CALLS = Counter("pdpp_mcp_tool_calls", "Calls of MCP tools", ("tool", "outcome"))
SECONDS = Histogram(
    "pdpp_mcp_tool_seconds",
    "From a call to its result",
    ("tool",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)
UNKNOWN_TOOL = "unknown"
"""Label of every tool name that does not exist."""


class Outcome:
    """Outcome of one call: `label` is "succeeded" unless the call sets another."""

    def __init__(self, label: str = "succeeded") -> None:
        self.label = label


SpanFactory: TypeAlias = Callable[[str, Outcome], AbstractContextManager[None]]
"""Opens a tracing span around one call of a tool, and reads the outcome at its end."""


def no_span(_tool: str, _outcome: Outcome) -> AbstractContextManager[None]:
    """Record no span."""
    return nullcontext()


def record_unknown_tool(open_span: SpanFactory) -> None:
    """Count one call of a tool that does not exist."""
    CALLS.labels(UNKNOWN_TOOL, "refused").inc()
    with open_span(UNKNOWN_TOOL, Outcome("refused")):
        pass


@contextmanager
def measure_call(tool: str, open_span: SpanFactory) -> Iterator[Outcome]:
    """Measure one call of an existing tool."""
    outcome = Outcome()
    with open_span(tool, outcome), SECONDS.labels(tool).time():
        yield outcome
    CALLS.labels(tool, outcome.label).inc()
