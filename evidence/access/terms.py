"""The frozen document of a grant <-> ``StreamTerms``.

Reading is strict: a member that is missing or of another shape makes the grant unusable rather
than wider.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from evidence.access.scope import Allowed, Everything, FrozenRelation, Only, StreamTerms, TimeRange


@lru_cache(maxsize=1024)
def parsed_terms(grant_id: str, streams: str) -> tuple[StreamTerms, ...]:
    """The terms in the JSON text ``streams``; kept, because a grant never changes."""
    return thawed(streams)


def thawed(streams: str | bytes) -> tuple[StreamTerms, ...]:
    """The same of a grant that is not issued, and may change yet."""
    return tuple(_stream(entry) for entry in orjson.loads(streams))


def _stream(entry: Mapping[str, Any]) -> StreamTerms:
    return StreamTerms(
        name=entry["name"],
        connection_ids=frozenset(entry["instance_ids"]),
        fields=Only(frozenset(entry["fields"])),
        filters=Only(frozenset(entry["filters"]) & frozenset(entry["fields"])),
        views=Only(frozenset(entry["views"])),
        relations=tuple(FrozenRelation(**relation) for relation in entry["relations"]),
        records=_records(entry),
        time=_time(entry.get("time_constraint")),
    )


def _records(entry: Mapping[str, Any]) -> Allowed:
    if "resources" not in entry:
        return Everything()
    return Only(frozenset(entry["resources"]))


def _time(constraint: Mapping[str, str] | None) -> TimeRange | None:
    if constraint is None:
        return None
    return TimeRange(_instant(constraint.get("since")), _instant(constraint.get("until")))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def frozen(
    terms: Sequence[StreamTerms], *, time_fields: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """The document that ``parsed_terms`` reads back to equal terms."""
    return [_document(term, time_fields.get(term.name)) for term in terms]


def _document(term: StreamTerms, time_field: str | None) -> dict[str, Any]:
    if not isinstance(term.fields, Only) or not isinstance(term.filters, Only):
        raise TypeError("a grant names its fields")
    if not isinstance(term.views, Only) or isinstance(term.relations, Everything):
        raise TypeError("a grant names its views and relations")
    document: dict[str, Any] = {
        "name": term.name,
        "instance_ids": sorted(term.connection_ids),
        "fields": sorted(term.fields.names),
        "filters": sorted(term.filters.names),
        "views": sorted(term.views.names),
        "relations": [
            {
                "name": relation.name,
                "stream": relation.stream,
                "foreign_key": relation.foreign_key,
                "cardinality": relation.cardinality,
                "default_limit": relation.default_limit,
                "max_limit": relation.max_limit,
            }
            for relation in term.relations
        ],
    }
    if isinstance(term.records, Only):
        document["resources"] = sorted(term.records.names)
    if term.time is not None:
        document["time_constraint"] = {"field": time_field} | {
            name: bound.isoformat()
            for name, bound in (("since", term.time.since), ("until", term.time.until))
            if bound is not None
        }
    return document
