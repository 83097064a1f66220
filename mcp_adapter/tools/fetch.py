"""fetch: one record as a document."""

from dataclasses import dataclass
from typing import Any

from mcp_adapter import (
    arguments,
    ids,
    labels,
    record_refs,
    rest_params,
)
from mcp_adapter import (
    budget as budgets,
)
from mcp_adapter import (
    budget as pages,
)
from mcp_adapter.budget import longest, whole
from mcp_adapter.errors import AdapterError
from mcp_adapter.field_windows import pointed_at
from mcp_adapter.json_text import dumps
from mcp_adapter.text.fitting import expanded, omissions, preview
from mcp_adapter.tool import Call, Result, Tool

_MAIN_TEXT = ("text", "content", "body", "body_text", "message", "description", "notes", "summary")
_LONG_TEXT = 200
_IDENTITY = ("connection_id", "connector_key", "display_name", "emitted_at", "version")


@dataclass(frozen=True, slots=True)
class Passage:
    """The beginning of a text field, `total` its length in code points."""

    field: str
    text: str
    total: int


@dataclass(frozen=True, slots=True)
class Source:
    """A record as it was read, with the names under which the document shows it."""

    given_id: str
    handle: str
    url: str
    record: dict[str, Any]


def main_text(data: dict[str, Any]) -> str | None:
    """The field to show as the text: by its usual names, else the longest text."""
    texts = {name: _length(value) for name, value in data.items()}
    for name in _MAIN_TEXT:
        if texts.get(name):
            return name
    longest = max(texts, key=texts.__getitem__, default=None)
    return longest if longest is not None and texts[longest] >= _LONG_TEXT else None


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return int(value.get("total_chars") or 0) if is_window(value) else 0


def is_window(value: Any) -> bool:
    """Whether REST put a window descriptor where the field was too large."""
    return isinstance(value, dict) and value.get("object") == "field_window_read"


def passage_document(data: dict[str, Any], field: str) -> Passage:
    """What there is of a text field: all of it, or the preview in its window descriptor."""
    value = data[field]
    if is_window(value):
        return Passage(field, value.get("preview", ""), int(value["total_chars"]))
    return Passage(field, value, len(value))


def record_document(source: Source, passage: Passage | None, *, room: int) -> dict[str, Any]:
    """The document; `room` is what the other fields may take, in characters."""
    data = source.record.get("data", {})
    metadata = _identity(source)
    if passage is not None:
        text = passage.text
        others = {name: value for name, value in data.items() if name != passage.field}
        fields = preview(others, room=room)
        metadata |= _extent(source, passage)
    else:
        fields = preview(data, room=room)
        text = dumps(fields.pop("data", {}))
    metadata |= {"fields": fields.pop("data")} if fields.get("data") else {}
    omitted = omissions(source.record)
    metadata["complete"] = metadata.get("complete", True) and not omitted and "cut" not in fields
    metadata |= omitted
    if "cut" in fields:
        metadata |= fields
        metadata.setdefault("next", _read(source, {"field_path": fields["cut"][0]}))
    if omitted:
        metadata.setdefault("next", _fetch_omitted(source))
    metadata |= _blob(source.record) | expanded(source.record, room=room)
    return {
        "id": source.given_id,
        "title": labels.title(source.record),
        "text": text,
        "url": source.url,
        "metadata": metadata,
    }


def _blob(record: dict[str, Any]) -> dict[str, Any]:
    """Binary content of the record, by the URI that reads it."""
    reference = record.get("data", {}).get("blob_ref")
    blob_id = pointed_at(reference)
    if blob_id is None:
        return {}
    uri = ids.blob_uri(blob_id, connection_id=record.get("connection_id"))
    read = {"tool": "read_record_field", "args": {"id": uri}}
    return {"blob": {"media_type": reference.get("media_type"), "read": read}}


def _identity(source: Source) -> dict[str, Any]:
    record = source.record
    identity = {name: record[name] for name in _IDENTITY if record.get(name) is not None}
    if source.handle != source.given_id:
        identity["handle"] = source.handle
    return {"stream": record.get("stream"), **identity, "origin": labels.origin(record)}


def _extent(source: Source, passage: Passage) -> dict[str, Any]:
    end = len(passage.text)
    extent = {"text_field": passage.field, "end_chars": end, "total_chars": passage.total}
    if end >= passage.total:
        return {**extent, "complete": True}
    args = {"field_path": passage.field, "offset_chars": end}
    return {**extent, "complete": False, "next": _read(source, args)}


def _fetch_omitted(source: Source) -> dict[str, Any]:
    """Return the call that fetches the fields that REST left out, as far as REST names them."""
    names = source.record.get("omitted_fields", [])
    return {"tool": "fetch", "args": {"id": source.handle, "fields": names}}


def _read(source: Source, args: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "read_record_field", "args": {"id": source.handle, **args}}


def render(structured: dict[str, Any]) -> str:
    """The exact mirror of the structured output."""
    return dumps(structured)


DESCRIPTION = (
    "Open one record as a document with id, title, text, url, metadata (read-only; GET "
    "/v1/streams/{stream}/records/{id}). Pass an id from search or query_records exactly as shown; "
    "pdpp://record/... URIs work too. A long text starts at its beginning and metadata.next reads "
    "on; fields narrows the record, and without a text field the text is the record as JSON. For "
    "records as structured output use query_records."
)
ARGUMENTS = (
    arguments.text("id", "connection_id/stream:record_id, as shown", required=True),
    rest_params.CONNECTION_ID,
    rest_params.FIELDS,
    rest_params.EXPAND,
    rest_params.EXPAND_LIMIT,
    budgets.MAX_BYTES,
)
_FORWARDED = ("fields", "expand", "expand_limit")
_REST_SHARE = 0.85
_ROOMS = (2_400, 1_200, 600, 300, 120, 0)


def run(call: Call) -> Result:
    """Read the record, its large fields as windows whose previews fill what room there is."""
    ref = record_refs.record_of(call.given)
    rest_params.gate(call, stream=ref.stream, connection_id=ref.connection_id)
    budget = budgets.chosen(call.given, default=budgets.READ)
    params = [
        *record_refs.connection_params(ref.connection_id),
        *rest_params.params(call.given, *_FORWARDED),
        pages.bound("max_bytes", int(min(budget.structured, budget.text) * _REST_SHARE)),
    ]
    record = call.get(rest_params.record_path(ref), params)
    found = record_refs.resolved(ref, record)
    source = Source(
        call.given["id"], ids.handle(found), labels.record_url(call.public_url, found), record
    )
    main = main_text(record.get("data") or {})
    passage = None if main is None else passage_document(record["data"], main)
    result = _roomiest(source, passage, budget, least=_ROOMS[-3] if passage else 0)
    if budget.holds(result):
        return result
    if passage is None:
        raise _too_large()
    return _shortened(source, passage, budget)


def _shortened(source: Source, passage: Passage, budget: budgets.Budget) -> Result:
    """The beginning of the main text, as much as the tighter channel holds."""

    def beginning(chars: int) -> Result:
        text = passage.text[: whole(passage.text, chars)]
        part = Passage(passage.field, text, passage.total)
        return _roomiest(source, part, budget)

    found = longest(len(passage.text), draw=beginning, fits=budget.holds)
    if found is None:
        raise _too_large()
    return found


def _roomiest(
    source: Source,
    passage: Passage | None,
    budget: budgets.Budget,
    *,
    least: int = 0,
) -> Result:
    """The document with the most of its other fields that fits."""
    for room in _ROOMS:
        document = record_document(source, passage, room=max(room, least))
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
