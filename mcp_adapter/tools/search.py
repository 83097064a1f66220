"""search: return full-text matches over everything that the grant covers."""

from typing import Any

from evidence import record_ids
from mcp_adapter import budget as budgets
from mcp_adapter import labels, rest_params
from mcp_adapter.arguments import Arguments, choice, string, string_list
from mcp_adapter.errors import AdapterError, error_from_response
from mcp_adapter.text.search import EMPTY_PAGE, best_excerpt, highlight, render
from mcp_adapter.tool import Call, Result, Tool, require_success

DESCRIPTION = (
    "Find records by words over all granted connections, merged and ranked (read-only; GET "
    '/v1/search). Words are ANDed; also "a phrase", "=as written", prefix*, OR, -not. Give q or '
    "query. Each hit has an id for fetch, a title, a url and evidence around the match. limit "
    "counts merged hits. Page with cursor or narrow by streams and connection_id (see schema); "
    "structured output is visible too. For lists and totals use query_records or aggregate."
)
ARGUMENTS = (
    string("q", "Words to find"),
    string("query", "Same as q"),
    string_list("streams", "Only these streams"),
    rest_params.CONNECTION_ID,
    rest_params.FILTER,
    rest_params.AFTER,
    rest_params.BEFORE,
    choice("mode", ("lexical", "semantic", "hybrid"), "See search_modes in schema"),
    choice("match", ("exact",)),
    choice("sort", ("-time",), "Newest first, not by rank"),
    rest_params.limit_argument("Hits, 1 to 100"),
    rest_params.CURSOR,
    budgets.MAX_BYTES,
)
_PATHS = {"semantic": "/v1/search/semantic", "hybrid": "/v1/search/hybrid"}
_FORWARDED = ("streams", "connection_id", "filter", "after", "before", "match", "sort",
              "cursor")  # fmt: skip
_DEFAULT_HITS = 6
_SNIPPET_CHARS = 160
_SOURCE = ("stream", "record_key", "connection_id", "connector_key", "display_name", "origin",
           "word_forms")  # fmt: skip


def run(call: Call) -> Result:
    """Read one page of hits, and return each with a handle that opens it."""
    arguments = call.arguments
    default = budgets.PAGE if "limit" in arguments else budgets.SEARCH
    budget = budgets.requested_budget(arguments, default=default, ratio=budgets.PAGE)
    path = _PATHS.get(arguments.get("mode", ""), "/v1/search")
    params = [
        ("q", _query(arguments)),
        *rest_params.query_params(arguments, *_FORWARDED),
        *budgets.limit_params(budget, structured={"results": [], "data": 0}, text=EMPTY_PAGE),
        ("limit", str(arguments.get("limit", _DEFAULT_HITS))),
    ]
    response = call.get(path, params)
    if response.status == 404 and path in _PATHS.values():
        next_step = "Call search without mode: this server has no such one."
        raise error_from_response(response, next_step=next_step)

    def build(page: dict[str, Any]) -> Result:
        hits = page["data"]
        structured = {
            "results": [
                _result(hit, position, public_url=call.public_url)
                for position, hit in enumerate(hits)
            ],
            "origin": labels.page_origin(hits),
            "data": page,
        }
        return Result(structured, render(structured, max_bytes=budget.text))

    return budgets.fit_page(require_success(response), build=build, budget=budget)


def _query(arguments: Arguments) -> str:
    queries = {arguments[name] for name in ("q", "query") if name in arguments}
    if len(queries) == 1:
        return str(queries.pop())
    if not queries:
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


def _result(hit: dict[str, Any], position: int, *, public_url: str) -> dict[str, Any]:
    ref = _record_ref(hit)
    hit_id = hit.get("result_id")
    # A self-contained id of the REST API passes unchanged.
    if not (isinstance(hit_id, str) and "/" in hit_id):
        fallback = str(hit.get("url") or f"result:{position}")
        hit_id = record_ids.format_id(ref) if ref else fallback
    result = {
        "id": hit_id,
        "title": labels.title(hit),
        "url": labels.record_url(public_url, ref) if ref else f"{public_url}/records",
    }
    for name in _SOURCE:
        if hit.get(name):
            result[name] = hit[name]
    if (excerpt := best_excerpt(hit)) is not None:
        result["snippet"] = highlight(excerpt, max_chars=_SNIPPET_CHARS)
    return result


def _record_ref(hit: dict[str, Any]) -> record_ids.RecordRef | None:
    stream, key = hit.get("stream"), hit.get("record_key")
    if not isinstance(stream, str) or not isinstance(key, str):
        return None
    return record_ids.RecordRef(hit.get("connection_id"), stream, key)


TOOL = Tool("search", "Search records", DESCRIPTION, ARGUMENTS, run)
