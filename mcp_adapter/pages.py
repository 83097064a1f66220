"""Pages that end where the tighter channel ends.

REST cuts pages to bytes itself (`max_bytes`), so the usual page fits at once. Where long ids or
labels still burst a channel, the page is asked for again with fewer items: the cursor that comes
with it then continues exactly behind the last item shown.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from evidence.limits import MAX_BYTES_LEAST, MAX_BYTES_MOST
from mcp_adapter.budgets import Budget
from mcp_adapter.errors import AdapterError
from mcp_adapter.shrinking import shrunk
from mcp_adapter.tool import Result

Body: TypeAlias = dict[str, Any]

_SHARES = (0.7, 0.5, 0.35, 0.2)


def rest_bytes(budget: Budget, *, share: float) -> tuple[str, str]:
    """The `max_bytes` to forward: that share of the structured channel, within REST's bounds."""
    wanted = int(budget.structured * share)
    return "max_bytes", str(min(max(wanted, MAX_BYTES_LEAST), MAX_BYTES_MOST))


def fitted(
    ask: Callable[[int], Body],
    *,
    limit: int,
    build: Callable[[Body], Result],
    budget: Budget,
) -> Result:
    """`ask(n)` reads the page of at most n items, `build` renders it into both channels."""
    body = ask(limit)
    result = build(body)
    while body["data"] and not budget.holds(result):
        count = len(body["data"])
        if count == 1:
            return _single(body, build=build, budget=budget)
        body = ask(_fitting(body, count, build=build, budget=budget))
        result = build(body)
    return result


def _fitting(body: Body, count: int, *, build: Callable[[Body], Result], budget: Budget) -> int:
    """How many of the first items fit: at least one, and fewer than now."""
    least, most = 1, count - 1
    while least < most:
        middle = (least + most + 1) // 2
        if budget.holds(build({**body, "data": body["data"][:middle]})):
            least = middle
        else:
            most = middle - 1
    return least


def _single(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    for share in _SHARES:
        result = build(shrunk(body, most=int(budget.structured * share)))
        if budget.holds(result):
            return result
    raise AdapterError(
        "result_too_large",
        "One item alone is larger than the result may be.",
        next_step="Call again with fields set to the fields you need, or with a larger max_bytes.",
    )
