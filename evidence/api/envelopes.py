"""Build the JSON envelopes of records (contracts 2 and 3), in a form and within byte limits; say what each discloses.

Readers decide what may be seen.

The compact form is for language models. Members that all items share and the labels of connections
are given once a page, a search hit has one excerpt, and links are left out, because next_cursor says
the same. Nothing else is lost: the full form gives the rest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings

from evidence.access.change_log import Tombstone
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api.base_views import ApiWarning
from evidence.declarations.declaration import (
    BLOB_REFERENCE,
    TEXT_TYPE,
    currency_field,
    determine_origin,
    money_texts,
)
from evidence.errors import InvalidRequest
from evidence.item_lines import describe_read, hit_entry, hit_line, list_children, record_line
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import (
    Size,
    clip,
    clip_bytes,
    cut_hit,
    cut_record,
    dumps,
    fit_page,
    json_size,
    largest_that_fits,
    shrink_hit,
    shrink_record,
    wire_size,
)
from evidence.parameters import ByteLimits, PageForm
from evidence.read.expansion import Children, Expansion, Related, load_related
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


EMPTY_BYTES = 360
"""Size of an empty page or record: member names, counts and an empty meta."""
_EMPTY_LINE_BYTES = 100
_CONNECTION_MEMBERS = ("connector_id", "connector_instance_id", "connector_key", "display_name")
_LABELS = ("connector_key", "display_name")
_HIT_BYTES = 1_000
"""Size of a compact search hit and its entry, above which its excerpt and title are cut."""
_REPEATED = frozenset({*_CONNECTION_MEMBERS, "title", "authored_at"})
"""Members of a record that its data or the page also gives."""
_SHARED = ("object", "origin")
_SHARED_OF_HITS = (*_SHARED, "stream", "connection_id")


@dataclass(frozen=True, slots=True)
class ListForm:
    """The form, and the limits in bytes of the whole response and of the lines of its items."""

    compact: bool = False
    total: int | None = None
    lines: int | None = None


def parse_list_form(query: ByteLimits) -> ListForm:
    """Return the form that the parameters ask for. Raises InvalidRequest for lines without `max_bytes`."""
    if query.max_line_bytes is not None and query.max_bytes is None:
        raise InvalidRequest(message="max_line_bytes requires max_bytes.", param="max_line_bytes")
    compact = isinstance(query, PageForm) and query.form == "compact"
    return ListForm(compact, query.max_bytes, query.max_line_bytes)


@dataclass(frozen=True)
class ItemPage:
    """The items of a response that fit, the members that these share, and how many did not fit."""

    items: list[Json]
    shared: Json
    left: int = 0

    @property
    def meta(self) -> Json:
        """The members of `meta` that tell that the page ended at a limit; none if it did not."""
        return {"ended_by": "max_bytes", "left": self.left} if self.left else {}


def envelope_size(
    form: ListForm, *, url: str, warnings: Sequence[ApiWarning], cursor: int, meta: object = None
) -> Size:
    """Return the size of a page without items: its meta, links and cursors of at most `cursor`.

    Without byte limits, nothing needs it.
    """
    if form.total is None:
        return Size(0, 0)
    metadata = [meta or {}, [asdict(warning) for warning in warnings]]
    body = EMPTY_BYTES + json_size(metadata) + 2 * cursor
    if not form.compact:
        body += 2 * json_size(url)
    return Size(body, _EMPTY_LINE_BYTES + wire_size(dumps(metadata)) + 2 * cursor)


def fit_items(
    items: Sequence[Json], form: ListForm, envelope: Size, *, order: Sequence[str] = ()
) -> ItemPage:
    """Return the first items that fit into the limits, in the form, and what they share.

    `order` has the fields of a record by importance, for a record that exceeds the limits alone.
    """
    if form.total is None and not form.compact:
        return ItemPage(list(items), {})
    connections, asked = _connections(items), len(items)
    shared: Json = {}
    room = _room(form, envelope)
    if form.compact:
        items = [_without_repeated(item) for item in items]
        shared = _shared_members(items)
        room = Size(room.structured - json_size([shared, connections]), room.text)
    measure = partial(_measure, form=form, shared=shared, connections=connections)
    if form.compact:
        items = [_short_hit(item, measure) for item in items]
    items = _fit(items, form, room, measure=measure, order=order)
    shown = [{name: item[name] for name in item if name not in shared} for item in items]
    if not form.compact:
        return ItemPage(shown, {}, asked - len(shown))
    ids = {item["connection_id"] for item in items}
    page_connections = {key: value for key, value in connections.items() if key in ids}
    members = {"shared": shared, "connections": page_connections} if items else {}
    return ItemPage(shown, members, asked - len(shown))


def fit_item(item: Json, form: ListForm, *, order: Sequence[str] = ()) -> Json:
    """Return a single record within the limits. In the compact form, only its reads are compact."""
    room = _room(form, Size(EMPTY_BYTES, _EMPTY_LINE_BYTES))
    measure = partial(_measure, form=form, shared={}, connections={})
    return _fit([item], form, room, measure=measure, order=order)[0]


def _room(form: ListForm, envelope: Size) -> Size:
    structured = (form.total or 0) - envelope.structured
    # Without a limit of their own, lines measure nothing.
    return Size(structured, structured if form.lines is None else form.lines - envelope.text)


def _fit(
    items: Sequence[Json],
    form: ListForm,
    room: Size,
    *,
    measure: Callable[[Json], Size],
    order: Sequence[str],
) -> list[Json]:
    if form.total is None:
        return list(items)
    describe = describe_read if form.compact else _window_link
    return fit_page(
        items,
        room,
        measure=measure,
        cut=lambda item, chars: (
            cut_hit(item, chars)
            if item["object"] == "search_result"
            else cut_record(item, chars, describe_read=describe)
        ),
        shrink=lambda item, fits: (
            shrink_hit(item, fits)
            if item["object"] == "search_result"
            else shrink_record(item, fits, order=order, describe_read=describe)
        ),
    )


def order_of_fields(visible: VisibleRecords) -> list[str]:
    """Return the fields of a stream by importance: key, roles, searchable texts, then as declared."""
    stream = visible.stream
    roles = [name for name, field in stream.fields.items() if field.role]
    return list(
        dict.fromkeys([*stream.primary_key, *roles, *stream.lexical_fields, *stream.fields])
    )


def _short_hit(item: Json, measure: Callable[[Json], Size]) -> Json:
    """Return a search hit with its excerpt and title as long as it fits _HIT_BYTES."""

    def fits(hit: Json) -> bool:
        return measure(hit).structured <= _HIT_BYTES

    if item["object"] != "search_result" or fits(item):
        return item
    shorter = largest_that_fits(_HIT_BYTES, render=partial(cut_hit, item), fits=fits)
    return shorter or cut_hit(item, 0)


def _without_repeated(item: Json) -> Json:
    repeated = _CONNECTION_MEMBERS if item["object"] == "search_result" else _REPEATED
    compact = {name: value for name, value in item.items() if name not in repeated}
    if "expanded" in item:
        compact["expanded"] = {name: _related(body) for name, body in item["expanded"].items()}
    return compact


def _related(body: Any) -> Any:
    if body is None:
        return None
    if body["object"] != "list":
        return _without_repeated(body)
    others = {name: body[name] for name in body if name != "url"}
    read = list_children(body)
    records = [_without_repeated(record) for record in body["data"]]
    return {**others, **({"read": read} if read else {}), "data": records}


def _shared_members(items: Sequence[Json]) -> Json:
    """Return the members that have the same value in every item."""
    if not items:
        return {}
    first = items[0]
    names = _SHARED_OF_HITS if first["object"] == "search_result" else _SHARED
    return {
        name: first[name]
        for name in names
        if name in first and all(item.get(name) == first[name] for item in items)
    }


def _connections(items: Iterable[Json]) -> dict[str, Json]:
    return {
        item["connection_id"]: {name: item[name] for name in _LABELS if name in item}
        for item in items
    }


def _measure(
    item: Json, *, form: ListForm, shared: Mapping[str, Any], connections: Mapping[str, Json]
) -> Size:
    """Return the size of an item in both channels, with its entry in the structured one."""
    size = json_size({name: item[name] for name in item if name not in shared}) + 1
    if form.lines is None:
        return Size(size, 0)
    if item["object"] == "search_result":
        labels = connections[item["connection_id"]]
        entry = hit_entry({**labels, **item}, public_url=settings.PDPP_PUBLIC_URL)
        line = hit_line(item, entry)
    else:
        line = record_line(item)
        entry = line["id"]
    return Size(size + json_size(entry) + 1, wire_size(dumps(line)) - 1)


def _window_link(record: Json, field: str) -> Json:
    link = field_window_link(record["stream"], record["id"], field, record["connection_id"])
    return {name: link[name] for name in link if name != "object"}


def with_expanded(
    bodies: Sequence[dict[str, Any]],
    records: Sequence[VisibleRecord],
    expansions: Sequence[Expansion],
) -> list[dict[str, Any]]:
    """Return the envelopes of `records` with their related records. One query per relation."""
    if not expansions:
        return list(bodies)
    related_records = load_related(records, expansions)
    return [
        body
        | {
            "expanded": {
                expansion.relation.name: _related_body(record, expansion, related)
                for expansion, related in relations
            }
        }
        for body, record, relations in zip(bodies, records, related_records, strict=True)
    ]


def _related_body(
    parent: VisibleRecord, expansion: Expansion, related: Related
) -> dict[str, Any] | None:
    if isinstance(related, Children):
        return {
            "object": "list",
            **_list_url(parent, expansion),
            "has_more": related.has_more,
            "data": [
                record_body(expansion.child, record, record.data) for record in related.records
            ],
        }
    return None if related is None else record_body(expansion.child, related, related.data)


def _list_url(parent: VisibleRecord, expansion: Expansion) -> dict[str, Any]:
    """Return the URL that lists all children, if the client may filter by the foreign key."""
    child, key = expansion.child, expansion.relation.foreign_key
    if not child.can_filter_by(key):
        return {}
    query = urlencode(
        {f"filter[{key}]": parent.record_key, "connection_id": parent.connection.connection_id}
    )
    return {"url": f"/v1/streams/{quote(child.stream.name, safe='')}/records?{query}"}
