"""fetch: one record as a document."""

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
from mcp_adapter.cutting import longest, whole
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
_REST_SHARE = 0.85
_ROOMS = (2_400, 1_200, 600, 300, 120, 0)


def run(call: Call) -> Result:
    """Read the record, its large fields as windows whose previews fill what room there is."""
    ref = targets.record_of(call.given)
    expansion.gate(call, stream=ref.stream, connection_id=ref.connection_id)
    budget = budgets.chosen(call.given, default=budgets.READ)
    params = [
        *targets.connection_params(ref.connection_id),
        *queries.params(call.given, *_FORWARDED),
        pages.bound("max_bytes", int(min(budget.structured, budget.text) * _REST_SHARE)),
    ]
    record = call.get(queries.record_path(ref), params)
    found = targets.resolved(ref, record)
    source = documents.Source(
        call.given["id"], ids.handle(found), labels.record_url(call.public_url, found), record
    )
    main = documents.main_text(record.get("data") or {})
    passage = None if main is None else documents.passage(record["data"], main)
    result = _roomiest(source, passage, budget, least=_ROOMS[-3] if passage else 0)
    if budget.holds(result):
        return result
    if passage is None:
        raise _too_large()
    return _shortened(source, passage, budget)


def _shortened(
    source: documents.Source, passage: documents.Passage, budget: budgets.Budget
) -> Result:
    """The beginning of the main text, as much as the tighter channel holds."""

    def beginning(chars: int) -> Result:
        text = passage.text[: whole(passage.text, chars)]
        part = documents.Passage(passage.field, text, passage.total)
        return _roomiest(source, part, budget)

    found = longest(len(passage.text), draw=beginning, fits=budget.holds)
    if found is None:
        raise _too_large()
    return found


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
