"""Build the JSON envelopes of records (contracts 2 and 3), and say what each discloses.

Readers decide what may be seen.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from evidence.access.change_log import Tombstone
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api.query_parameters import ApiWarning
from evidence.declarations.declaration import BLOB_REFERENCE, TEXT_TYPE
from evidence.declarations.roles import currency_field, determine_origin, money_texts
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import clip, clip_bytes
from evidence.record_ids import path_segment

Json = dict[str, Any]

MAX_TITLE_CHARS, MAX_TITLE_BYTES, MAX_PLACE_CHARS = 160, 320, 60
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


def actor_place_and_amount(visible: VisibleRecords, data: Mapping[str, Any]) -> Json:
    """Return the author, the place and the amount of money by the roles of granted fields."""
    stream = visible.stream
    actor, place = (_role_text(data, name) for name in (stream.actor_field, stream.place_field))
    name = stream.amount_field or ""
    amount = data.get(name)
    money = money_texts(stream, {name: amount}, data)
    return {
        **({"actor": clip(actor, MAX_TITLE_CHARS)} if actor else {}),
        **({"place": clip(place, MAX_PLACE_CHARS)} if place else {}),
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


def record_items(
    visible: VisibleRecords,
    body: Json,
    *,
    filtered_by: frozenset[str] = frozenset(),
    related: Mapping[str, VisibleRecords] | None = None,
) -> list[DisclosedItem]:
    """Return what the envelope of a record discloses after budgets have cut it, for the ledger.

    A record that a filter selected discloses the fields of the filter. `related` has the streams of
    its expanded relations.
    """
    # A deleted record is not named: it may have been erased.
    key = None if body.get("deleted") else body["id"]
    fields = {*body.get("data", ()), *filtered_by}
    fields |= {currency_field(visible.stream, name) or name for name in body.get("money", ())}
    items = [DisclosedItem(body["connection_id"], visible.stream.name, key, frozenset(fields))]
    for name, child in (body.get("expanded") or {}).items():
        rows = [] if child is None else child["data"] if child["object"] == "list" else [child]
        for row in rows:
            items += record_items((related or {})[name], row)
    return items


def stream_items(visible: VisibleRecords, *, fields: frozenset[str]) -> list[DisclosedItem]:
    """Return what a count or an empty result discloses: its fields, once for each connection."""
    return [
        DisclosedItem(facts.connection_id, visible.stream.name, None, fields)
        for facts in visible.connections
    ]


def role_fields(visible: VisibleRecords, body: Json) -> set[str]:
    """Return the fields whose values the members of a hit show by their role."""
    stream = visible.stream
    fields = {
        "title": stream.heading_field,
        "authored_at": stream.event_time_field,
        "actor": stream.actor_field,
        "place": stream.place_field,
        "amount": stream.amount_field,
        "money": currency_field(stream, stream.amount_field or ""),
    }
    return {name for member, name in fields.items() if member in body and name is not None}
