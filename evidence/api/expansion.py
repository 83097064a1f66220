"""Parse `expand` and add related records to record envelopes, one query per relation."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from evidence.access.gate import Gate
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes
from evidence.api.query_parameters import QueryParameters
from evidence.reading import expansion as expanding
from evidence.reading.expansion import Children, Expansion, Related

PARAMETERS = frozenset({"expand", "expand_limit"})


def parse_expand(query: QueryParameters, gate: Gate, visible: VisibleRecords) -> list[Expansion]:
    """Return the relations that `expand` names, with their limits."""
    return expanding.parse_expand(
        gate,
        visible,
        names=query.name_list("expand") or (),
        limits=query.nested("expand_limit"),
    )


def with_expanded(
    bodies: Sequence[dict[str, Any]],
    records: Sequence[VisibleRecord],
    expansions: Sequence[Expansion],
) -> list[dict[str, Any]]:
    """Return the envelopes of `records` with their related records. One query per relation."""
    if not expansions:
        return list(bodies)
    related_records = expanding.load_related(records, expansions)
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
            "data": [_record(expansion.child, record) for record in related.records],
        }
    return None if related is None else _record(expansion.child, related)


def _record(visible: VisibleRecords, record: VisibleRecord) -> dict[str, Any]:
    return envelopes.record_body(visible, record, record.data)


def _list_url(parent: VisibleRecord, expansion: Expansion) -> dict[str, Any]:
    """Return the URL that lists all children, if the client may filter by the foreign key."""
    child, key = expansion.child, expansion.relation.foreign_key
    if not child.can_filter_by(key):
        return {}
    query = urlencode(
        {f"filter[{key}]": parent.record_key, "connection_id": parent.connection.connection_id}
    )
    return {"url": f"/v1/streams/{quote(child.stream.name, safe='')}/records?{query}"}
