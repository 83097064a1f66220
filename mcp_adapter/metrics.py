"""How often each tool was called, how that ended and how long it took."""

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
UNKNOWN = "unknown"
"""Whatever an agent calls a tool that is not there."""


class Outcome:
    """Succeeded, unless somebody says otherwise in time."""

    def __init__(self, word: str = "succeeded") -> None:
        self.word = word


Spanned: TypeAlias = Callable[[str, Outcome], AbstractContextManager[None]]
"""Goes around one call of a tool; at its end the outcome is known."""


def unspanned(_tool: str, _outcome: Outcome) -> AbstractContextManager[None]:
    return nullcontext()


def unknown(spanned: Spanned) -> None:
    """One call of a tool that is not there."""
    CALLS.labels(UNKNOWN, "refused").inc()
    with spanned(UNKNOWN, Outcome("refused")):
        pass


@contextmanager
def measured(tool: str, spanned: Spanned) -> Iterator[Outcome]:
    """One call of a tool that is there."""
    outcome = Outcome()
    with spanned(tool, outcome), SECONDS.labels(tool).time():
        yield outcome
    CALLS.labels(tool, outcome.word).inc()
