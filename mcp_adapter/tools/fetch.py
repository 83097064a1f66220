"""fetch: one record as a document."""

from functools import partial
from typing import Any

from evidence import limits
from mcp_adapter import (
    arguments,
    budgets,
    documents,
    expansion,
    ids,
    labels,
    pages,
    queries,
    targets,
)
from mcp_adapter.errors import AdapterError
from mcp_adapter.text.fetch import render
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Open one record as a document with id, title, text, url, metadata (read-only; GET "
    "/v1/streams/{stream}/records/{id}). Pass an id from search or query_records exactly as shown; "
    "pdpp://record/... URIs work too. A long text starts at its beginning and metadata.next reads "
    "on; fields narrows the record, and without a text field the text is the record as JSON. For "
    "records as structured output use query_records."
)
ARGUMENTS = (
    arguments.text("id", "connection_id/stream:record_id, as shown", required=True),
    queries.CONNECTION_ID,
    queries.FIELDS,
    queries.EXPAND,
    queries.EXPAND_LIMIT,
    budgets.MAX_BYTES,
)
_FORWARDED = ("fields", "expand", "expand_limit")
_REST_SHARE = 0.75
_ROOMS = (2_400, 1_200, 600, 300, 120, 0)


def run(call: Call) -> Result:
    """Read the record, and a window of its main text where the whole does not fit."""
    ref = targets.record_of(call.given)
    expansion.gate(call, stream=ref.stream, connection_id=ref.connection_id)
    budget = budgets.chosen(call.given, default=budgets.READ)
    params = [
        *targets.connection_params(ref.connection_id),
        *queries.params(call.given, *_FORWARDED),
        pages.rest_bytes(budget, share=_REST_SHARE),
    ]
    record = call.get(queries.record_path(ref), params)
    found = targets.resolved(ref, record)
    source = documents.Source(
        call.given["id"], ids.handle(found), labels.record_url(call.public_url, found), record
    )
    data = record.get("data") or {}
    main = documents.main_text(data)
    if main is None:
        return _roomiest(source, None, budget)
    if not documents.is_window(data[main]):
        whole = documents.Passage(main, data[main], len(data[main]))
        result = _roomiest(source, whole, budget, least=_ROOMS[-3])
        if budget.holds(result):
            return result
    return _windowed(call, source, found, field=main, budget=budget)


def _windowed(
    call: Call,
    source: documents.Source,
    ref: ids.RecordRef,
    *,
    field: str,
    budget: budgets.Budget,
) -> Result:
    """The beginning of the main text, as much as the tighter channel holds."""
    chars = min(budget.text * 3 // 4, limits.WINDOW_MAX_CHARS)
    build = partial(_roomiest, source, budget=budget)
    while chars > 0:
        passage = _beginning(call, ref, field=field, chars=chars)
        result = build(passage)
        if budget.holds(result):
            return result
        chars = _fewer(passage, budget, build=build)
    raise _too_large()


def _fewer(passage: documents.Passage, budget: budgets.Budget, *, build: Any) -> int:
    """How many characters fit, less what a grapheme may add at the end of a window."""
    least, most = 0, len(passage.text) - 1
    while least < most:
        middle = (least + most + 1) // 2
        part = documents.Passage(passage.field, passage.text[:middle], passage.total + 1)
        if budget.holds(build(part)):
            least = middle
        else:
            most = middle - 1
    return least - limits.WINDOW_GRAPHEME_CHARS


def _beginning(call: Call, ref: ids.RecordRef, *, field: str, chars: int) -> documents.Passage:
    params = [
        *targets.connection_params(ref.connection_id),
        ("field", field),
        ("limit_chars", str(chars)),
    ]
    window = call.get(f"{queries.record_path(ref)}/field-window", params)["window"]
    return documents.Passage(field, window["text"], window["total_chars"])


def _roomiest(
    source: documents.Source,
    passage: documents.Passage | None,
    budget: budgets.Budget,
    *,
    least: int = 0,
) -> Result:
    """The document with the most of its other fields that fits."""
    for room in _ROOMS:
        document = documents.document(source, passage, room=max(room, least))
        result = Result(document, render(document))
        if budget.holds(result):
            return result
    return result


def _too_large() -> AdapterError:
    return AdapterError(
        "result_too_large",
        "The record is larger than the result may be.",
        next_step="Call fetch again with fields, or with a larger max_bytes.",
    )


TOOL = Tool("fetch", "Fetch a record", DESCRIPTION, ARGUMENTS, run)
