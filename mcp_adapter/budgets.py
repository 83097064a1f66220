"""How much of a result each channel may take, in UTF-8 bytes as serialized."""

from dataclasses import dataclass

from evidence import limits
from mcp_adapter import arguments
from mcp_adapter.tool import Result


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the two channels of one result may take."""

    structured: int
    text: int

    def holds(self, result: Result) -> bool:
        """Whether the result fits, each channel for itself."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH = Budget(limits.STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ = Budget(limits.READ_BYTES, limits.READ_BYTES)

_LEAST_TEXT = 1_600
"""A long id, a long cursor and the words that say what to do with them."""

MAX_BYTES = arguments.whole(
    "max_bytes",
    f"Result size, {limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST} bytes",
    least=limits.MAX_BYTES_LEAST,
    most=limits.MAX_BYTES_MOST,
)


def chosen(given: arguments.Given, *, default: Budget, wide: Budget | None = None) -> Budget:
    """The default, or `max_bytes` of both channels together, shared out as in `wide`."""
    total = given.get("max_bytes")
    if total is None:
        return default
    shape = wide or default
    text = max(total * shape.text // (shape.text + shape.structured), _LEAST_TEXT)
    return Budget(structured=total - text, text=text)
