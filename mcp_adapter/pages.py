"""Pages that end where the tighter channel ends, cut by REST and read in one call.

REST is told what each channel has left for the page: `max_bytes` for the items as they are, and
`max_line_bytes` for the lines that name them in the text. What the adapter itself adds is measured
here before the call, so that the page that comes back is the page that is shown.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from evidence.limits import MAX_BYTES_MOST, PAGE_BYTES_LEAST
from mcp_adapter.budgets import Budget
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps, size, wire_size
from mcp_adapter.shrinking import shrunk
from mcp_adapter.text.fitting import SOURCES_BYTES
from mcp_adapter.tool import Result

Body: TypeAlias = dict[str, Any]

_SHARES = (0.7, 0.5, 0.35, 0.2)
_ORIGIN_BYTES = 140
"""The marks of origin of a page, at most."""


def bounds(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """What to forward, given both channels as they are without any item."""
    most = budget.structured - size(structured) - _ORIGIN_BYTES
    lines = budget.text - wire_size(dumps(text)) - SOURCES_BYTES
    return [bound("max_bytes", most), bound("max_line_bytes", lines)]


def bound(name: str, most: int) -> tuple[str, str]:
    """The parameter, within the range that REST takes."""
    return name, str(min(max(most, PAGE_BYTES_LEAST), MAX_BYTES_MOST))


def shown(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """The page in both channels. Only one item that is too large alone is cut here, by name."""
    result = build(body)
    if budget.holds(result):
        return result
    if len(body["data"]) == 1:
        # What the links say the cursor says too.
        kept: Body = body.get("links", {})
        for links in (kept, {}):
            for share in _SHARES:
                cut = shrunk({**body, "links": links}, most=int(budget.structured * share))
                result = build(cut)
                if budget.holds(result):
                    return result
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
