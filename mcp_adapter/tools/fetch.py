"""fetch: return one record as a document with id, title, text, url and metadata."""

import re
from dataclasses import dataclass
from typing import Any

from evidence import record_ids
from mcp_adapter import budget as budgets
from mcp_adapter import labels, record_refs, rest_params
from mcp_adapter.arguments import string
from mcp_adapter.budget import grapheme_boundary, largest_that_fits
from mcp_adapter.errors import AdapterError
from mcp_adapter.field_windows import referenced_blob_id
from mcp_adapter.json_text import dumps
from mcp_adapter.labels import is_window_descriptor
from mcp_adapter.record_lines import record_lines
from mcp_adapter.text.fitting import Preview, expanded_records, omitted_fields
from mcp_adapter.tool import Call, Result, Tool

_MAIN_TEXT = ("text", "content", "body", "body_text", "message", "description", "notes", "summary")
_MIN_MAIN_TEXT_CHARS = 200
# Encoded bytes: letters of both cases and digits, 200 or more, without a space or a full stop.
_BASE64 = re.compile(
    r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9+/_\-\r\n]{200,}={0,2}\s*", re.DOTALL
)
_IDENTITY = ("connection_id", "connector_key", "display_name", "emitted_at", "version")


@dataclass(frozen=True, slots=True)
class TextPassage:
    """The beginning of a text field, and the total length of the field in code points."""

    field: str
    text: str
    total_chars: int


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """A record as REST returned it, with the ids and the URL that the document shows."""

    requested_id: str
    handle: str
    url: str
    body: dict[str, Any]


def main_text_field(data: dict[str, Any], *, declared: str | None = None) -> str | None:
    """Return the field to show as the text: the declared one, one with a usual name, or the longest."""
    lengths = {name: _text_length(value) for name, value in data.items()}
    for name in (declared or "", *_MAIN_TEXT):
        if lengths.get(name):
            return name
    longest = max(lengths, key=lengths.__getitem__, default=None)
    return longest if longest is not None and lengths[longest] >= _MIN_MAIN_TEXT_CHARS else None


def _text_length(value: Any) -> int:
    text = value.get("preview", "") if is_window_descriptor(value) else value
    if not isinstance(text, str) or _BASE64.fullmatch(text):
        return 0
    return len(text) if text is value else int(value.get("total_chars") or 0)


def text_passage(data: dict[str, Any], field: str) -> TextPassage:
    """Return the text of a field, or the preview in its window descriptor."""
    value = data[field]
    if is_window_descriptor(value):
        return TextPassage(field, value.get("preview", ""), int(value["total_chars"]))
    return TextPassage(field, value, len(value))


def build_document(
    record: FetchedRecord, passage: TextPassage | None, *, max_chars: int
) -> dict[str, Any]:
    """Return the document, with about `max_chars` characters for the fields beside the text."""
    body = record.body
    data = body.get("data", {})
    metadata = _identity(record)
    if passage is not None:
        text = passage.text
        others = {name: value for name, value in data.items() if name != passage.field}
        fields = Preview(others).fit(max_chars)
        metadata |= _passage_extent(record, passage)
    else:
        fields = Preview(data).fit(max_chars)
        text = record_lines(fields.pop("data", {}), body.get("money", {}))
    metadata |= {"fields": fields.pop("data")} if fields.get("data") else {}
    omitted = omitted_fields(body)
    metadata["complete"] = metadata.get("complete", True) and not omitted and "cut" not in fields
    metadata |= omitted
    if "cut" in fields:
        metadata |= fields
        metadata.setdefault("next", _read_field(record.handle, field_path=fields["cut"][0]))
    if omitted:
        metadata.setdefault("next", _fetch_omitted(record))
    metadata |= _blob(body) | expanded_records(body, max_chars=max_chars)
    return {
        "id": record.requested_id,
        "title": labels.title(body),
        "text": text,
        "url": record.url,
        "metadata": metadata,
    }


def _blob(body: dict[str, Any]) -> dict[str, Any]:
    """Return how to read the binary content of the record, if it has any."""
    reference = body.get("data", {}).get("blob_ref")
    blob_id = referenced_blob_id(reference)
    if blob_id is None:
        return {}
    uri = record_ids.blob_uri(blob_id, connection_id=body.get("connection_id"))
    return {"blob": {"media_type": reference.get("media_type"), "read": _read_field(uri)}}


def _identity(record: FetchedRecord) -> dict[str, Any]:
    body = record.body
    identity = {name: body[name] for name in _IDENTITY if body.get(name) is not None}
    if record.handle != record.requested_id:
        identity["handle"] = record.handle
    return {"stream": body.get("stream"), **identity, "origin": labels.origin_mark(body)}


def _passage_extent(record: FetchedRecord, passage: TextPassage) -> dict[str, Any]:
    end, total = len(passage.text), passage.total_chars
    extent = {"text_field": passage.field, "end_chars": end, "total_chars": total}
    if end >= total:
        return {**extent, "complete": True}
    next_call = _read_field(record.handle, field_path=passage.field, offset_chars=end)
    return {**extent, "complete": False, "next": next_call}


def _fetch_omitted(record: FetchedRecord) -> dict[str, Any]:
    """Return the call that fetches the fields that REST left out, if REST names them."""
    names = record.body.get("omitted_fields", [])
    return {"tool": "fetch", "args": {"id": record.handle, "fields": names}}


def _read_field(record_id: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": "read_record_field", "args": {"id": record_id, **arguments}}


DESCRIPTION = (
    "Open one record as a document with id, title, text, url, metadata (read-only; GET "
    "/v1/streams/{stream}/records/{id}). Pass an id from search or query_records exactly as "
    "shown; pdpp://record/... URIs work too. metadata.next reads on in a long text; fields of "
    "schema(stream) narrow the record, and without a text field the text is one line per field. "
    "For records as structured output use query_records."
)
ARGUMENTS = (
    string("id", "connection_id/stream:record_id, as shown", required=True),
    rest_params.CONNECTION_ID,
    rest_params.FIELDS,
    rest_params.EXPAND,
    rest_params.EXPAND_LIMIT,
    budgets.MAX_BYTES,
)
_FORWARDED = ("fields", "expand", "expand_limit")
_REST_SHARE = 0.85
"""Share of the budget that REST may fill with the record."""
_FIELD_CHARS = (2_400, 1_200, 600, 300, 120, 0)
_MIN_FIELD_CHARS = 300
"""Minimum for the fields beside a text before the text itself is cut."""


def run(call: Call) -> Result:
    """Read the record, and fit its main text and its other fields into the budget."""
    ref = record_refs.parse_record(call.arguments)
    rest_params.require_expandable(call, stream=ref.stream, connection_id=ref.connection_id)
    budget = budgets.requested_budget(call.arguments, default=budgets.READ)
    max_bytes = int(min(budget.structured, budget.text) * _REST_SHARE)
    params = [
        *record_refs.connection_params(ref.connection_id),
        *rest_params.query_params(call.arguments, *_FORWARDED),
        budgets.limit_param("max_bytes", max_bytes),
    ]
    body = call.get_json(rest_params.record_path(ref), params)
    ref = record_refs.resolve(ref, body)
    url = labels.record_url(call.public_url, ref)
    record = FetchedRecord(call.arguments["id"], record_ids.format_id(ref), url, body)
    field = main_text_field(body.get("data") or {}, declared=body.get("text_field"))
    passage = None if field is None else text_passage(body["data"], field)
    min_chars = _MIN_FIELD_CHARS if passage else 0
    result: Result | None = _fit_fields(record, passage, budget, min_chars=min_chars)
    if result is not None and budget.allows(result):
        return result
    result = None if passage is None else _fit_text(record, passage, budget)
    if result is None:
        raise AdapterError(
            "result_too_large",
            "The record is larger than the result may be.",
            next_step="Call fetch again with fields, or with a larger max_bytes.",
        )
    return result


def _fit_text(record: FetchedRecord, passage: TextPassage, budget: budgets.Budget) -> Result | None:
    """Return the document with as much of the main text as both channels allow."""

    def render(chars: int) -> Result:
        text = passage.text[: grapheme_boundary(passage.text, chars)]
        beginning = TextPassage(passage.field, text, passage.total_chars)
        return _fit_fields(record, beginning, budget)

    return largest_that_fits(len(passage.text), render=render, fits=budget.allows)


def _fit_fields(
    record: FetchedRecord,
    passage: TextPassage | None,
    budget: budgets.Budget,
    *,
    min_chars: int = 0,
) -> Result:
    """Return the document with as much of its other fields as fits, or else the smallest one."""
    for max_chars in _FIELD_CHARS:
        document = build_document(record, passage, max_chars=max(max_chars, min_chars))
        result = Result(document, dumps(document))
        if budget.allows(result):
            break
    return result


TOOL = Tool("fetch", "Fetch a record", DESCRIPTION, ARGUMENTS, run)
