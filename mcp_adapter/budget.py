"""Byte budgets of both channels of a result, and the pages that REST cuts to fit them.

All sizes are UTF-8 bytes as serialized in the response. `evidence.page_cutter` decides what is cut.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from evidence import limits
from evidence.item_lines import describe_read
from evidence.json_text import dumps, json_size, wire_size
from evidence.page_cutter import largest_that_fits, shrink_hit, shrink_record
from mcp_adapter.arguments import Arguments, integer
from mcp_adapter.errors import AdapterError
from mcp_adapter.rest import Params
from mcp_adapter.tool import Result

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum size of each channel of a result."""

    structured: int
    text: int

    def allows(self, result: Result) -> bool:
        """Return whether both channels of the result are within the budget."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH = Budget(limits.SEARCH_STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ = Budget(limits.READ_BYTES, limits.READ_BYTES)


def max_bytes_argument(default: Budget) -> Any:
    """Define `max_bytes`; the description states its unit, bounds and default."""
    size = f"{limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST}; default {default.text}"
    if default.text != default.structured:
        size = (
            f"to {limits.MAX_BYTES_MOST}; default, least: {default.text} text, "
            f"{default.structured} structured"
        )
    return integer(
        "max_bytes",
        f"Bytes per channel, {size}",
        minimum=limits.MAX_BYTES_LEAST,
        maximum=limits.MAX_BYTES_MOST,
    )


def requested_budget(arguments: Arguments, *, default: Budget) -> Budget:
    """Return the default, or `max_bytes` for each channel.

    Both channels show the same page, so where their defaults differ, each is also the least: less
    room for one channel would show less in the other than its default does.
    """
    total = arguments.get("max_bytes")
    if total is None:
        return default
    if default.text == default.structured:
        return Budget(total, total)
    return Budget(max(total, default.structured), max(total, default.text))


_ORIGIN_BYTES = 140
"""Maximum size of the origin mark of a page."""


def limit_params(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """Return the REST parameters that bound a page, given both channels without any item."""
    max_bytes = budget.structured - json_size(structured) - _ORIGIN_BYTES
    max_line_bytes = budget.text - wire_size(dumps(text))
    return [limit_param("max_bytes", max_bytes), limit_param("max_line_bytes", max_line_bytes)]


def limit_param(name: str, max_bytes: int) -> tuple[str, str]:
    """Return one REST size parameter, clamped to the range that REST accepts."""
    return name, str(min(max(max_bytes, limits.PAGE_BYTES_LEAST), limits.MAX_BYTES_MOST))


def read_page(
    request: Callable[[Params], Body],
    params: Params,
    *,
    build: Callable[[Body], Result],
    budget: Budget,
) -> Result:
    """Request a page and build its result.

    A server that ignores the byte limits is asked again for as many items as fit. A single item that
    still exceeds the budget is shrunk. Raises AdapterError if the page cannot be made to fit.
    """
    body = request(params)
    result = build(body)
    if budget.allows(result):
        return result
    if len(body["data"]) > 1:
        first_items = largest_that_fits(
            len(body["data"]) - 1,
            render=lambda count: {**body, "data": body["data"][:count]},
            fits=lambda page: budget.allows(build(page)),
        )
        count = max(len(first_items["data"]) if first_items else 0, 1)
        others = [(name, value) for name, value in params if name != "limit"]
        body = request([*others, ("limit", str(count))])
        if budget.allows(result := build(body)):
            return result
    return _shrunk(body, build=build, budget=budget)


def _shrunk(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """Return the page with its only item shrunk, without links, which repeat the cursor."""
    body = {**body, "links": {}} if "links" in body else body
    if len(body["data"]) == 1:
        shared = body.get("shared", {})
        item = {**shared, **body["data"][0]}

        def page(item: Body) -> Body:
            shown = {name: value for name, value in item.items() if name not in shared}
            return {**body, "data": [shown]}

        def fits(item: Body) -> bool:
            return budget.allows(build(page(item)))

        shrunk = (
            shrink_hit(item, fits)
            if "evidence_excerpts" in item
            else shrink_record(item, fits, describe_read=describe_read)
        )
        if fits(shrunk):
            return build(page(shrunk))
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
