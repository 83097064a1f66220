"""search: return full-text matches over everything that the grant covers."""

from typing import Any

from evidence.item_lines import (
    count_by_source,
    hit_entry,
    hit_line,
    near_passage,
    next_call,
    page_items,
    page_origin,
    target_arguments,
)
from evidence.page_cutter import dumps
from evidence.parameters import Search
from mcp_adapter.rest import Params
from mcp_adapter.tool import (
    SEARCH_BUDGET,
    AdapterError,
    Arguments,
    Call,
    Result,
    Tool,
    error_from_response,
    limit_params,
    max_bytes_argument,
    own_text,
    read_page,
    requested_budget,
    require_success,
    route_params,
    tool_arguments,
)

DESCRIPTION = (
    "Find records by words over all granted connections, merged, ranked (read-only; GET "
    '/v1/search). Words are ANDed; also "a phrase", "=as written", prefix*, OR, -not. Give q '
    "or query. Hits have id (for fetch), title, url, date, author, amount and the match in "
    "<mark> unless the title shows it. limit counts merged hits (default 10); next.page goes "
    "on. Narrow by streams and connection_id from schema. For lists and totals use "
    "query_records or aggregate. May be shown as structured output."
)
ARGUMENTS = tool_arguments(
    "q",
    own_text("query", "Same as q"),
    "streams",
    "connection_id",
    "filter",
    "after",
    "before",
    "mode",
    "match",
    "sort",
    "limit",
    "cursor",
    max_bytes_argument(SEARCH_BUDGET),
    route=Search,
)
_PATHS = {"semantic": "/v1/search/semantic", "hybrid": "/v1/search/hybrid"}
_DEFAULT_HITS = 10
_RENDERED_META = frozenset(
    {"count", "count_accuracy", "recall", "warnings", "match", "ended_by", "left"}
)
_FETCH = next_call("fetch", {"id": "x" * 50})


def run(call: Call) -> Result:
    """Read one page of hits, and return each with a handle that opens it."""
    arguments = call.arguments
    budget = requested_budget(arguments, default=SEARCH_BUDGET)
    path = _PATHS.get(arguments.get("mode", ""), "/v1/search")
    steps = {"next": {"page": next_call("search", arguments, cursor=""), "fetch": _FETCH}}
    params = [
        ("q", _query(arguments)),
        *route_params(arguments, Search, without=("q", "mode", "limit", "max_bytes")),
        ("form", "compact"),
        *limit_params(
            budget,
            structured={"match": "any_word", "results": [], **steps, "data": 0},
            text={"has_more": False, "results": [], **steps, "sources": "x" * 160},
        ),
        ("limit", str(arguments.get("limit", _DEFAULT_HITS))),
    ]

    def request(params: Params) -> dict[str, Any]:
        response = call.get(path, params)
        if response.status == 404 and path in _PATHS.values():
            next_step = "Call search without mode: this server has no such one."
            raise error_from_response(response, next_step=next_step)
        return require_success(response)

    def build(page: dict[str, Any]) -> Result:
        result = _build(page, call)
        return result if budget.allows(result) else _build(page, call, lean=True)

    return read_page(request, params, build=build, budget=budget)


def _build(page: dict[str, Any], call: Call, *, lean: bool = False) -> Result:
    """Return both channels of a page; if `lean`, only what is needed to go on."""
    hits = page_items(page)
    entries = [
        hit_entry(hit, public_url=call.public_url, position=position)
        for position, hit in enumerate(hits)
    ]
    if not call.rest.has_pages:
        paths = [hit.get("record_url", "") for hit in hits]
        entries = [
            entry | {"url": f"{call.public_url}{path}"}
            for entry, path in zip(entries, paths, strict=True)
        ]
    steps = {"next": _next_steps(page, hits, call.arguments, lean=lean)}
    match = page.get("meta", {}).get("match")
    said = {"match": match} if match == "any_word" else {}
    structured = {**said, "results": entries, **steps, "origin": page_origin(hits), "data": page}
    lines = [hit_line(hit, entry) for hit, entry in zip(hits, entries, strict=True)]
    sources = {} if lean else count_by_source(hits, unit="hits", least=1)
    return Result(structured, dumps({**said, "results": lines, **_page(page), **sources, **steps}))


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


def _page(envelope: dict[str, Any]) -> dict[str, Any]:
    meta = envelope.get("meta", {})
    page: dict[str, Any] = {"has_more": envelope.get("has_more", False)}
    if envelope.get("next_cursor"):
        page["next_cursor"] = envelope["next_cursor"]
    if not isinstance(meta.get("count"), dict) and meta.get("count") is not None:
        page["count"] = {"value": meta["count"], "accuracy": meta.get("count_accuracy")}
    if meta.get("recall", {}).get("complete") is False:
        page["recall"] = meta["recall"]
    if meta.get("warnings"):
        page["warnings"] = meta["warnings"]
    page |= {name: meta[name] for name in ("ended_by", "left") if name in meta}
    rest = {name: value for name, value in meta.items() if name not in _RENDERED_META}
    return {**page, **({"meta": rest} if rest else {})}


def _next_steps(
    page: dict[str, Any], hits: list[dict[str, Any]], arguments: Arguments, *, lean: bool
) -> dict[str, dict[str, Any]]:
    """Return the calls for the next page and for the first hit, or what is near it in meaning."""
    if not hits:
        return {"schema": next_call("schema", {})}
    steps = {}
    if page.get("next_cursor"):
        steps["page"] = next_call("search", arguments, cursor=page["next_cursor"])
    if lean or not isinstance(hits[0].get("record_key"), str):
        return steps
    target = target_arguments(hits[0])
    if near := near_passage(hits[0]):
        return steps | {"read": next_call("read_record_field", {**target, **near["near"]})}
    return steps | {"fetch": next_call("fetch", target)}


TOOL = Tool("search", "Search records", DESCRIPTION, ARGUMENTS, run)
