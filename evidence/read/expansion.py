"""Expand the relations of a page of records.

A relation is limited by the terms stored with the grants and by the current declaration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.record_details import fetch_many_related, fetch_one_related
from evidence.access.records import RecordKey, VisibleRecord, VisibleRecords
from evidence.access.scope import Everything, FrozenRelation, GrantedStream
from evidence.declarations.declaration import Relation
from evidence.declarations.values import key_text
from evidence.errors import InvalidExpand


def with_effective_limits(visible: VisibleRecords, relation: Relation) -> Relation:
    """Return the relation with the lowest of the declared, granted and server limits."""
    granted = [
        frozen
        for grant in visible.granted
        if (frozen := _frozen_relation(grant, relation)) is not None
    ]
    maximum = min(
        [limits.EXPAND_MAX, relation.max_limit, *(frozen.max_limit for frozen in granted)]
    )
    default = min([maximum, relation.default_limit, *(frozen.default_limit for frozen in granted)])
    return replace(relation, default_limit=default, max_limit=maximum)


def refusal_reason(gate: Gate, visible: VisibleRecords, relation: Relation) -> str | None:
    """Return the code of why the relation cannot be expanded over these connections, or None.

    The related stream must be granted in the same connections, the grants must contain the relation
    as it is declared now, and the foreign key must be granted.
    """
    child = related_stream(gate, visible, relation)
    if child is None or len(child.connections) < len(visible.connections):
        return "related_stream_not_granted"
    if not all(_allows(grant, relation) for grant in visible.granted):
        return "relation_not_in_grant"
    key_stream = child if relation.cardinality == "has_many" else visible
    if not key_stream.shows(relation.foreign_key):
        return "field_not_granted"
    return None


def related_stream(
    gate: Gate, visible: VisibleRecords, relation: Relation
) -> VisibleRecords | None:
    """Return the related stream as granted in the same connections, or None."""
    connection_ids = {facts.connection_id for facts in visible.connections}
    for source in gate.sources:
        for child in source.streams:
            same_source = child.source.source_pk == visible.source.source_pk
            if same_source and child.stream.name == relation.stream:
                return _restrict_to_connections(child, connection_ids)
    return None


def _restrict_to_connections(
    child: VisibleRecords, connection_ids: set[str]
) -> VisibleRecords | None:
    restricted = []
    for grant in child.granted:
        shared = tuple(c for c in grant.connections if c.connection_id in connection_ids)
        if shared:
            restricted.append(GrantedStream(grant.grant_id, grant.terms, shared))
    if not restricted:
        return None
    return VisibleRecords(child.source, child.stream, child.layout, tuple(restricted))


def _allows(grant: GrantedStream, relation: Relation) -> bool:
    return (
        isinstance(grant.terms.relations, Everything)
        or _frozen_relation(grant, relation) is not None
    )


def _frozen_relation(grant: GrantedStream, relation: Relation) -> FrozenRelation | None:
    """Return the relation as stored with the grant, or None if the declaration changed since."""
    if isinstance(grant.terms.relations, Everything):
        return None
    return next((r for r in grant.terms.relations if _is_same_relation(r, relation)), None)


def _is_same_relation(frozen: FrozenRelation, relation: Relation) -> bool:
    return (frozen.name, frozen.stream, frozen.foreign_key, frozen.cardinality) == (
        relation.name,
        relation.stream,
        relation.foreign_key,
        relation.cardinality,
    )


LimitParam = tuple[tuple[str, ...], str]
"""The keys in brackets and the value: ``expand_limit[messages]=5`` is ``(("messages",), "5")``."""

MAX_LIMIT_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Expansion:
    """A relation to expand, with at most ``limit`` related records per record."""

    relation: Relation
    child: VisibleRecords
    limit: int


@dataclass(frozen=True, slots=True)
class Children:
    """The related records of a has_many relation, newest first."""

    records: Sequence[VisibleRecord]
    has_more: bool


Related: TypeAlias = VisibleRecord | Children | None
Expanded: TypeAlias = Sequence[tuple[Expansion, Related]]


def parse_expand(
    gate: Gate, visible: VisibleRecords, *, names: Sequence[str], limits: Sequence[LimitParam]
) -> list[Expansion]:
    """Return the expansions that ``expand`` names, without duplicates. Raises InvalidExpand."""
    expansions = {name: _expansion(gate, visible, name) for name in names}
    for keys, value in limits:
        param = "expand_limit" + "".join(f"[{key}]" for key in keys)
        expansion = expansions.get(keys[0]) if len(keys) == 1 else None
        if expansion is None:
            raise InvalidExpand(
                message=f"{param[:80]} takes a relation that expand names.",
                param=param,
            )
        expansions[keys[0]] = replace(
            expansion, limit=_parse_limit(expansion.relation, value, param)
        )
    return list(expansions.values())


def load_related(
    records: Sequence[VisibleRecord], expansions: Sequence[Expansion]
) -> list[Expanded]:
    """Return the related records of each record, in order; one query per relation."""
    columns = [
        [(expansion, related) for related in _related_records(records, expansion)]
        for expansion in expansions
    ]
    return list(zip(*columns, strict=True)) if columns else [() for _ in records]


def _expansion(gate: Gate, visible: VisibleRecords, name: str) -> Expansion:
    relation = visible.stream.relations.get(name)
    if relation is None or not relation.expandable:
        raise _refusal(visible, name, _PATH if "." in name else _UNKNOWN)
    reason = refusal_reason(gate, visible, relation)
    child = related_stream(gate, visible, relation)
    if reason is not None or child is None:
        raise _refusal(visible, name, _REASONS[reason or "related_stream_not_granted"])
    relation = with_effective_limits(visible, relation)
    return Expansion(relation, child, relation.default_limit)


_UNKNOWN = "the stream declares no such relation to expand"
_PATH = "relations of relations cannot be expanded"
_REASONS = {
    "related_stream_not_granted": "the related stream is not granted in all these connections",
    "relation_not_in_grant": "the grant does not include the relation as it is declared now",
    "field_not_granted": "the field that links the records is outside the grant",
}


def _refusal(visible: VisibleRecords, name: str, reason: str) -> InvalidExpand:
    stream = visible.stream.name
    usable = f"GET /v1/schema?stream={stream} lists what can be expanded (expand_capabilities)."
    return InvalidExpand(
        message=f"{name[:64]!r} of the stream {stream!r} cannot be expanded: {reason}.",
        param="expand",
        next_step=usable,
    )


def _parse_limit(relation: Relation, value: str, param: str) -> int:
    if relation.cardinality == "has_one":
        raise InvalidExpand(
            message=f"The relation {relation.name!r} leads to one record and takes no limit.",
            param=param,
        )
    is_number = value.isascii() and value.isdigit() and len(value) <= MAX_LIMIT_DIGITS
    if not is_number or not 1 <= int(value) <= relation.max_limit:
        raise InvalidExpand(
            message=f"The relation {relation.name!r} takes a limit from 1 to {relation.max_limit}.",
            param=param,
        )
    return int(value)


def _related_records(records: Sequence[VisibleRecord], expansion: Expansion) -> list[Related]:
    """Return the related records of one relation, per record."""
    relation, child = expansion.relation, expansion.child
    if relation.cardinality == "has_one":
        keys = [_target_key(record, relation.foreign_key) for record in records]
        found = fetch_one_related(child, filter(None, keys))
        return [found.get(key) if key is not None else None for key in keys]
    parents = [RecordKey(record.connection.connection_id, record.record_key) for record in records]
    children = fetch_many_related(child, relation.foreign_key, parents, limit=expansion.limit + 1)
    return [_children_page(children, parent, expansion.limit) for parent in parents]


def _children_page(
    children: Mapping[RecordKey, Sequence[VisibleRecord]], parent: RecordKey, limit: int
) -> Children:
    found = children.get(parent, ())
    return Children(found[:limit], has_more=len(found) > limit)


def _target_key(record: VisibleRecord, foreign_key: str) -> RecordKey | None:
    """Return the key of the referenced record, which is in the same connection."""
    key = key_text(record.data.get(foreign_key))
    return None if key is None else RecordKey(record.connection.connection_id, key)
