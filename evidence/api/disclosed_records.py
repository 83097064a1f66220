"""Extract the records and fields that a response discloses; an unknown body type is an error.

The final body is read, after size budgets have cut it. A new body type must be added here, so that no
response is sent unrecorded.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from evidence.access.gate import Gate
from evidence.access.records import VisibleRecords
from evidence.declarations.values import currency_field
from evidence.ledger.entries import DisclosedItem
from evidence.reading.schema import SourceCapability

Json = Mapping[str, Any]
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


def schema_disclosures(sources: Iterable[SourceCapability]) -> list[DisclosedItem]:
    """Return the streams of a schema response whose record count or freshness it shows."""
    return [
        item
        for source in sources
        for row in source.streams
        if row.record_count is not None or row.captured_at is not None
        for item in aggregate_disclosures(row.visible, fields=frozenset())
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
