"""``expanded`` in the envelope of a record, and what gives way first where it grows too large."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from evidence.access.gate import Gate
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes
from evidence.api.query_parameters import Parameters
from evidence.reading import expansion as expanding
from evidence.reading.expansion import Children, Expanded, Expansion, Related

PARAMETERS = frozenset({"expand", "expand_limit"})


def asked(query: Parameters, gate: Gate, visible: VisibleRecords) -> list[Expansion]:
    """The relations that ``expand`` names, with their limits."""
    return expanding.asked(
        gate,
        visible,
        names=query.names("expand") or (),
        limits=query.nested("expand_limit"),
    )


def beside(
    bodies: Sequence[dict[str, Any]],
    records: Sequence[VisibleRecord],
    expansions: Sequence[Expansion],
) -> list[dict[str, Any]]:
    """The envelopes of ``records``, each with what it is related to; one query a relation."""
    if not expansions:
        return list(bodies)
    found = expanding.expanded(records, expansions)
    return [
        body | {"expanded": _expanded(record, related)}
        for body, record, related in zip(bodies, records, found, strict=True)
    ]


def _expanded(record: VisibleRecord, related: Expanded) -> dict[str, Any]:
    return {
        expansion.relation.name: _related(record, expansion, found) for expansion, found in related
    }


def _related(parent: VisibleRecord, expansion: Expansion, found: Related) -> dict[str, Any] | None:
    if isinstance(found, Children):
        return {
            "object": "list",
            **_address(parent, expansion),
            "has_more": found.has_more,
            "data": [_record(expansion.child, each) for each in found.records],
        }
    return None if found is None else _record(expansion.child, found)


def _record(visible: VisibleRecords, record: VisibleRecord) -> dict[str, Any]:
    return envelopes.record(visible, record, record.data)


def _address(parent: VisibleRecord, expansion: Expansion) -> dict[str, Any]:
    """Where all of the children are listed, if they may be chosen by their key."""
    child, key = expansion.child, expansion.relation.foreign_key
    if not child.filters_by(key):
        return {}
    query = urlencode(
        {f"filter[{key}]": parent.record_key, "connection_id": parent.connection.connection_id}
    )
    return {"url": f"/v1/streams/{quote(child.stream.name, safe='')}/records?{query}"}
