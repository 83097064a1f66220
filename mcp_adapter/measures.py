"""How often each tool was called, how that ended and how long it took."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Histogram

CALLS = Counter("pdpp_mcp_tool_calls", "Calls of MCP tools", ("tool", "outcome"))
SECONDS = Histogram(
    "pdpp_mcp_tool_seconds",
    "From a call to its result",
    ("tool",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)
UNKNOWN = "unknown"
"""Whatever an agent calls a tool that is not there."""


class Outcome:
    """Succeeded, unless somebody says otherwise in time."""

    def __init__(self) -> None:
        self.word = "succeeded"


@contextmanager
def measured(tool: str) -> Iterator[Outcome]:
    """One call of a tool that is there."""
    outcome = Outcome()
    with SECONDS.labels(tool).time():
        yield outcome
    CALLS.labels(tool, outcome.word).inc()
