"""search: full-text search over everything the grant allows."""

from typing import Any

from mcp_adapter import arguments, ids, labels, rest_params
from mcp_adapter import budget as budgets
from mcp_adapter import budget as pages
from mcp_adapter.errors import AdapterError, from_rest
from mcp_adapter.rest import Params
from mcp_adapter.text.search import EMPTY, best_excerpt, marked, render
from mcp_adapter.tool import Call, Result, Tool, succeeded

DESCRIPTION = (
    "Find records by words over all granted connections, merged and ranked (read-only; GET "
    '/v1/search). Words are ANDed; also "a phrase", prefix*, OR, -not. Give q or query. Each hit '
    "has an id for fetch, a title, a url and evidence around the match. limit counts merged hits. "
    "Page with cursor or narrow by streams and connection_id rather than asking for more; the "
    "structured output may be shown to you as well. For lists and totals use query_records or "
    "aggregate."
)
ARGUMENTS = (
    arguments.text("q", "Words to find"),
    arguments.text("query", "Same as q"),
    arguments.names("streams", "Only these streams"),
    rest_params.CONNECTION_ID,
    rest_params.FILTER,
    arguments.choice("mode", ("lexical", "semantic", "hybrid"), "See search_modes in schema"),
    arguments.choice("sort", ("-time",), "Newest first, not by rank"),
    rest_params.limit("Hits, 1 to 100"),
    rest_params.CURSOR,
    budgets.MAX_BYTES,
)
_PATHS = {"semantic": "/v1/search/semantic", "hybrid": "/v1/search/hybrid"}
_DEFAULT_HITS = 6
_SNIPPET_CHARS = 160
_SOURCE = ("stream", "record_key", "connection_id", "connector_key", "display_name", "origin")


def run(call: Call) -> Result:
    """Read one page of hits and show each with a handle that opens it."""
    given = call.given
    default = budgets.PAGE if "limit" in given else budgets.SEARCH
    budget = budgets.chosen(given, default=default, wide=budgets.PAGE)
    path = _PATHS.get(given.get("mode", ""), "/v1/search")
    params = [
        ("q", _query(given)),
        *rest_params.params(given, "streams", "connection_id", "filter", "sort", "cursor"),
        *pages.bounds(budget, structured={"results": [], "data": 0}, text=EMPTY),
        ("limit", str(given.get("limit", _DEFAULT_HITS))),
    ]
    return pages.shown(
        _page(call, path, params),
        build=lambda body: _build(body, public_url=call.public_url, text_bytes=budget.text),
        budget=budget,
    )


def _page(call: Call, path: str, params: Params) -> dict[str, Any]:
    answer = call.ask(path, params)
    if answer.status == 404 and path in _PATHS.values():
        raise from_rest(answer, next_step="Call search without mode: this server has no such one.")
    return succeeded(answer)


def _query(given: arguments.Given) -> str:
    words = {given[name] for name in ("q", "query") if name in given}
    if len(words) == 1:
        return str(words.pop())
    if not words:
        raise AdapterError(
            "missing_argument",
            "search needs q (or query): the words to find.",
            param="q",
            next_step="Call search again with q.",
        )
    raise AdapterError(
        "conflicting_arguments",
        "q and query are the same argument and were given different values.",
        param="query",
        next_step="Call search again with q alone.",
    )


def _build(body: dict[str, Any], *, public_url: str, text_bytes: int) -> Result:
    results = [
        _result(hit, position, public_url=public_url) for position, hit in enumerate(body["data"])
    ]
    structured = {
        "results": results,
        "origin": labels.origins(body["data"]),
        "data": body,
    }
    text = render(structured, most=text_bytes)
    return Result(structured, text)


def _result(hit: dict[str, Any], position: int, *, public_url: str) -> dict[str, Any]:
    ref = _ref(hit)
    shown = _own_id(hit) or (
        ids.handle(ref) if ref else str(hit.get("url") or f"result:{position}")
    )
    result = {
        "id": shown,
        "title": labels.title(hit),
        "url": labels.record_url(public_url, ref) if ref else f"{public_url}/records",
    }
    for name in _SOURCE:
        if hit.get(name):
            result[name] = hit[name]
    if (excerpt := best_excerpt(hit)) is not None:
        result["snippet"] = marked(excerpt, room=_SNIPPET_CHARS)
    return result


def _own_id(hit: dict[str, Any]) -> str | None:
    """A self-contained id that the resource server minted itself; it passes untouched."""
    own = hit.get("result_id")
    return own if isinstance(own, str) and "/" in own else None


def _ref(hit: dict[str, Any]) -> ids.RecordRef | None:
    stream, key = hit.get("stream"), hit.get("record_key")
    if not isinstance(stream, str) or not isinstance(key, str):
        return None
    return ids.RecordRef(hit.get("connection_id"), stream, key)


TOOL = Tool("search", "Search records", DESCRIPTION, ARGUMENTS, run)
