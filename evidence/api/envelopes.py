"""Build the JSON envelopes of records (contracts 2 and 3), and extract what a response discloses.

Readers decide what may be seen. The final body is read, after size budgets have cut it. A new body
type must be added to `disclosed_items`, so that no response is sent unrecorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from evidence.access.gate import Gate
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api.query_parameters import ApiWarning
from evidence.declarations.declaration import BLOB_REFERENCE, TEXT_TYPE
from evidence.declarations.roles import currency_field, determine_origin, money_texts
from evidence.json_text import clip, clip_bytes
from evidence.ledger.entries import DisclosedItem
from evidence.read.changes import Tombstone
from evidence.record_ids import path_segment

Json = dict[str, Any]

MAX_TITLE_CHARS, MAX_TITLE_BYTES = 160, 320
MIN_DOCUMENT_CHARS = 200


@lru_cache(maxsize=1024)  # many records of an import have the same time
def format_time(at: datetime | None) -> str | None:
    """Return the time in UTC with a Z, with microseconds only if not zero."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def with_links_and_meta(
    body: Json,
    *,
    self_link: str,
    warnings: Sequence[ApiWarning] = (),
    count: Json | None = None,
    next_link: str | None = None,
    meta: Json | None = None,
    links: bool = True,
) -> Json:
    """Add `links` and `meta` (contract 3.0); `links.next` only to bodies with `has_more`.

    The compact form has no links.
    """
    if links:
        next_member = {"next": next_link} if "has_more" in body else {}
        body = body | {"links": {"self": self_link, **next_member}}
    metadata: Json = {
        "count": count or {"kind": "none"},
        "warnings": [warning_body(warning) for warning in warnings],
    }
    return body | {"meta": metadata | (meta or {})}


def warning_body(warning: ApiWarning) -> Json:
    body: Json = {"code": warning.code, "message": warning.message, "param": warning.param}
    return body | ({"detail": dict(warning.detail)} if warning.detail else {})


def connection_members(visible: VisibleRecords, record: VisibleRecord | Tombstone) -> Json:
    """Return the members that name the connection of a record."""
    return {
        "connection_id": record.connection.connection_id,
        "connector_instance_id": record.connection.connection_id,
        "connector_key": visible.source.connector_key,
        "display_name": record.connection.display_name,
    }


def record_body(visible: VisibleRecords, record: VisibleRecord, data: Mapping[str, Any]) -> Json:
    """Return a record envelope with the projected `data`; blob references get their URL."""
    stream = visible.stream
    money = money_texts(stream, data, record.data) if stream.money_fields else {}
    return {
        "object": "record",
        "id": record.record_key,
        "stream": stream.name,
        **connection_members(visible, record),
        "emitted_at": format_time(record.emitted_at),
        "version": record.version,
        "origin": record_origin(visible, record),
        **title_and_time(visible, data),
        "data": with_blob_url(data, record.connection.connection_id),
        **({"money": money} if money else {}),
    }


def title_and_time(visible: VisibleRecords, data: Mapping[str, Any]) -> Json:
    """Return the title and the time of a record by the roles of the fields in `data`."""
    stream = visible.stream
    title = _role_text(data, stream.heading_field)
    authored_at = _role_text(data, stream.event_time_field)
    return {
        **({"title": clip_bytes(clip(title, MAX_TITLE_CHARS), MAX_TITLE_BYTES)} if title else {}),
        **({"authored_at": authored_at} if authored_at else {}),
    }


def actor_and_amount(visible: VisibleRecords, data: Mapping[str, Any]) -> Json:
    """Return the author and the amount of money by the roles of granted fields."""
    stream = visible.stream
    actor = _role_text(data, stream.actor_field)
    name = stream.amount_field or ""
    amount = data.get(name)
    money = money_texts(stream, {name: amount}, data)
    return {
        **({"actor": clip(actor, MAX_TITLE_CHARS)} if actor else {}),
        **({"amount": amount} if isinstance(amount, int | float) else {}),
        **({"money": money[name]} if money else {}),
    }


def _role_text(data: Mapping[str, Any], field: str | None) -> str | None:
    value: Any = data.get(field) if field is not None else None
    return value if isinstance(value, str) and value else None


def record_origin(visible: VisibleRecords, record: VisibleRecord) -> str:
    """Return who wrote the record, determined from granted fields only."""
    return determine_origin(
        record.data, roles=visible.stream.authorship, identities=record.connection.identities
    )


def main_text_member(visible: VisibleRecords, data: Mapping[str, Any]) -> Json:
    """Return `{"text_field": name}`, the first of the shown fields that is declared as a text.

    The name is None for a short note of a record that is neither a message nor a file: such a record,
    as a payment or a workout, is read by its fields.
    """
    stream = visible.stream
    texts = (name for name, field in stream.fields.items() if field.pdpp_type == TEXT_TYPE)
    name = next((name for name in texts if data.get(name)), None)
    if name is None:
        return {}
    is_document = stream.actor_field is not None or BLOB_REFERENCE in stream.fields
    is_note = not is_document and len(str(data[name])) < MIN_DOCUMENT_CHARS
    return {"text_field": None if is_note else name}


def tombstone_body(visible: VisibleRecords, tombstone: Tombstone) -> Json:
    """Return the envelope of a deleted record in the changes feed."""
    return {
        "object": "record",
        "id": tombstone.record_key,
        "stream": visible.stream.name,
        **connection_members(visible, tombstone),
        "deleted": True,
        "deleted_at": format_time(tombstone.gone_at),
        "emitted_at": format_time(tombstone.gone_at),
    }


def with_blob_url(data: Mapping[str, Any], connection_id: str) -> Json:
    reference = data.get(BLOB_REFERENCE)
    if not isinstance(reference, dict) or not isinstance(reference.get("blob_id"), str):
        return dict(data)
    address = blob_url(reference["blob_id"], connection_id)
    return {**data, BLOB_REFERENCE: {**reference, "fetch_url": address}}


def blob_url(blob_id: str, connection_id: str) -> str:
    """Return the path and query of a blob."""
    return f"/v1/blobs/{quote(blob_id, safe='')}?connection_id={connection_id}"


def record_path(stream: str, record_key: str) -> str:
    """Return the path of a record; its key may contain any character except control characters."""
    return f"/v1/streams/{quote(stream, safe='')}/records/{path_segment(record_key)}"


def field_window_link(stream: str, record_key: str, field: str, connection_id: str) -> Json:
    """Return the request that reads a window of a field."""
    return {
        "object": "field_window_read",
        "method": "GET",
        "route": f"{record_path(stream, record_key)}/field-window",
        "stream": stream,
        "record_id": record_key,
        "field": field,
        "connection_id": connection_id,
    }


METADATA_OBJECTS = frozenset(
    {"schema", "connector", "stream_metadata", "collector_state", "owner_connection"}
)
"""Body types that describe streams and connections and contain no records."""
_ROLE_MEMBERS = frozenset({"title", "authored_at", "actor", "amount", "money"})


class UnknownResponseType(Exception):  # noqa: N818 - a bug in a view, not a bad request
    """The response has an object type that this module does not handle."""


def disclosed_items(
    body: Json, *, gate: Gate, filter_fields: frozenset[str]
) -> list[DisclosedItem]:
    """Return the records and fields in `body`.

    A filtered response also discloses the values of `filter_fields`. Raises UnknownResponseType.
    """
    if body["object"] == "list":
        return list(_listed(body, gate, filter_fields=filter_fields))
    return list(_disclosed(body, gate))


def _listed(body: Json, gate: Gate, *, filter_fields: frozenset[str]) -> Iterator[DisclosedItem]:
    shared = body.get("shared", {})  # of the compact form
    for row in body["data"]:
        for index, item in enumerate(_disclosed({**shared, **row} if shared else row, gate)):
            # Related records follow the record that the filter selected.
            is_selected = index == 0 and filter_fields
            yield replace(item, fields=item.fields | filter_fields) if is_selected else item


def _disclosed(body: Json, gate: Gate) -> Iterator[DisclosedItem]:
    kind = body["object"]
    if kind == "list":
        for row in body["data"]:
            yield from _disclosed(row, gate)
    elif kind == "record":
        yield _record(body, gate)
        for related in (body.get("expanded") or {}).values():
            if related is not None:
                yield from _disclosed(related, gate)
    elif kind == "search_result":
        yield _hit(body, gate)
    elif kind == "field_window":
        yield _item(body, body["record_id"], {_top_level_field(body["field"]["path"])})
    elif kind == "stream":
        yield DisclosedItem(body["connection_id"], body["name"], None, frozenset())
    elif kind not in METADATA_OBJECTS:
        raise UnknownResponseType(kind)


def aggregate_disclosures(
    visible: VisibleRecords, *, fields: frozenset[str]
) -> list[DisclosedItem]:
    """Return one item per connection for a count or an empty result."""
    return [
        DisclosedItem(facts.connection_id, visible.stream.name, None, fields)
        for facts in visible.connections
    ]


def _record(body: Json, gate: Gate) -> DisclosedItem:
    # A deleted record gets no pseudonym: it may have been erased.
    key = None if body.get("deleted") else body["id"]
    fields = {*body.get("data", ())}
    if money := body.get("money"):
        stream = gate.stream(body["stream"], connection_id=body["connection_id"]).stream
        fields |= {currency for name in money if (currency := currency_field(stream, name))}
    return _item(body, key, fields)


def _hit(body: Json, gate: Gate) -> DisclosedItem:
    matched = (excerpt["field_path"] for excerpt in body["evidence_excerpts"])
    fields = {*body.get("matched_fields", ()), *matched, *_role_fields(body, gate)}
    if "snippet" in body:  # of a semantic match, where no word matched
        fields.add(body["snippet"]["field"])
    return _item(body, body["record_key"], fields)


def _role_fields(body: Json, gate: Gate) -> set[str]:
    """Return the fields whose values the members of an item show by their role."""
    if not _ROLE_MEMBERS & body.keys():
        return set()
    stream = gate.stream(body["stream"], connection_id=body["connection_id"]).stream
    fields = {
        "title": stream.heading_field,
        "authored_at": stream.event_time_field,
        "actor": stream.actor_field,
        "amount": stream.amount_field,
        "money": currency_field(stream, stream.amount_field or ""),
    }
    return {name for member, name in fields.items() if member in body and name is not None}


def _item(body: Json, record_key: str | None, fields: set[str]) -> DisclosedItem:
    return DisclosedItem(body["connection_id"], body["stream"], record_key, frozenset(fields))


def _top_level_field(path: str) -> str:
    """Return the top-level field of a field name or JSON Pointer."""
    if not path.startswith("/"):
        return path
    return path.split("/")[1].replace("~1", "/").replace("~0", "~")
