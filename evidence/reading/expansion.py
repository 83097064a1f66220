"""Which relations a token may expand, and how far: what the grants froze and what is declared now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.granted_streams import Sight
from evidence.access.record_parts import Key, several, singles
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import Everything, FrozenRelation
from evidence.declarations.declaration import Relation
from evidence.declarations.values import key_text
from evidence.errors import InvalidExpand


def bounded(visible: VisibleRecords, relation: Relation) -> Relation:
    """The relation with the tightest of the limits declared, frozen and served."""
    all_frozen = [_frozen(sight, relation) for sight in visible.sights]
    frozen = [each for each in all_frozen if each is not None]
    most = min([limits.EXPAND_MAX, relation.max_limit, *(each.max_limit for each in frozen)])
    default = min([most, relation.default_limit, *(each.default_limit for each in frozen)])
    return replace(relation, default_limit=default, max_limit=most)


def why_not(gate: Gate, visible: VisibleRecords, relation: Relation) -> str | None:
    """Why the relation cannot be expanded over these connections, or None where it can.

    The related stream needs a grant of its own in the same connections, the grants must have
    frozen the relation as it is declared now, and the key must be granted where it stands.
    """
    child = related(gate, visible, relation)
    if child is None or len(child.connections) < len(visible.connections):
        return "related_stream_not_granted"
    if not all(_allows(sight, relation) for sight in visible.sights):
        return "relation_not_in_grant"
    holder = child if relation.cardinality == "has_many" else visible
    if not holder.shows(relation.foreign_key):
        return "field_not_granted"
    return None


def related(gate: Gate, visible: VisibleRecords, relation: Relation) -> VisibleRecords | None:
    """The related stream as far as it is granted in the same connections; None where it is not."""
    here = {facts.connection_id for facts in visible.connections}
    for source in gate.sources:
        for child in source.streams:
            is_it = child.source.source_pk == visible.source.source_pk
            if is_it and child.stream.name == relation.stream:
                return _within(child, here)
    return None


def _within(child: VisibleRecords, connection_ids: set[str]) -> VisibleRecords | None:
    sights = []
    for sight in child.sights:
        there = tuple(each for each in sight.connections if each.connection_id in connection_ids)
        if there:
            sights.append(Sight(sight.grant_id, sight.terms, there))
    if not sights:
        return None
    return VisibleRecords(child.source, child.stream, child.layout, tuple(sights))


def _allows(sight: Sight, relation: Relation) -> bool:
    return isinstance(sight.terms.relations, Everything) or _frozen(sight, relation) is not None


def _frozen(sight: Sight, relation: Relation) -> FrozenRelation | None:
    """The relation as the grant froze it, where it still means the same."""
    if isinstance(sight.terms.relations, Everything):
        return None
    return next((each for each in sight.terms.relations if _same(each, relation)), None)


def _same(frozen: FrozenRelation, relation: Relation) -> bool:
    return (frozen.name, frozen.stream, frozen.foreign_key, frozen.cardinality) == (
        relation.name,
        relation.stream,
        relation.foreign_key,
        relation.cardinality,
    )


Limit = tuple[tuple[str, ...], str]
"""The keys in brackets and the value: ``expand_limit[messages]=5`` is ``(("messages",), "5")``."""

LONGEST_NUMBER = 9


@dataclass(frozen=True, slots=True)
class Expansion:
    """A relation that may be expanded here, to at most ``limit`` records each."""

    relation: Relation
    child: VisibleRecords
    limit: int


@dataclass(frozen=True, slots=True)
class Children:
    """The records at the other end of a relation to many, newest first."""

    records: Sequence[VisibleRecord]
    has_more: bool


Related: TypeAlias = VisibleRecord | Children | None
Expanded: TypeAlias = Sequence[tuple[Expansion, Related]]


def asked(
    gate: Gate, visible: VisibleRecords, *, names: Sequence[str], limits: Sequence[Limit]
) -> list[Expansion]:
    """What ``expand`` names, each once. Raises ``InvalidExpand`` for what cannot be expanded."""
    expansions = {name: _expansion(gate, visible, name) for name in names}
    for keys, value in limits:
        param = "expand_limit" + "".join(f"[{key}]" for key in keys)
        expansion = expansions.get(keys[0]) if len(keys) == 1 else None
        if expansion is None:
            raise InvalidExpand(
                message="A limit is expand_limit[relation]=n for a relation that expand names.",
                param=param,
            )
        expansions[keys[0]] = replace(expansion, limit=_limit(expansion.relation, value, param))
    return list(expansions.values())


def expanded(records: Sequence[VisibleRecord], expansions: Sequence[Expansion]) -> list[Expanded]:
    """For each record, in their order, what stands at the other end; one query a relation."""
    columns = [
        [(expansion, found) for found in _column(records, expansion)] for expansion in expansions
    ]
    return list(zip(*columns, strict=True)) if columns else [() for _ in records]


def _expansion(gate: Gate, visible: VisibleRecords, name: str) -> Expansion:
    relation = visible.stream.relations.get(name)
    if relation is None or not relation.expandable:
        raise _refusal(visible, name, _PATH if "." in name else _UNKNOWN)
    reason = why_not(gate, visible, relation)
    child = related(gate, visible, relation)
    if reason is not None or child is None:
        raise _refusal(visible, name, _REASONS[reason or "related_stream_not_granted"])
    relation = bounded(visible, relation)
    return Expansion(relation, child, relation.default_limit)


_UNKNOWN = "the stream declares no such relation to expand"
_PATH = "relations of relations are not followed"
_REASONS = {
    "related_stream_not_granted": "the related stream is not granted in all these connections",
    "relation_not_in_grant": "the grant does not hold the relation as it is declared now",
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


def _limit(relation: Relation, value: str, param: str) -> int:
    if relation.cardinality == "has_one":
        raise InvalidExpand(
            message=f"The relation {relation.name!r} leads to one record and takes no limit.",
            param=param,
        )
    is_number = value.isascii() and value.isdigit() and len(value) <= LONGEST_NUMBER
    if not is_number or not 1 <= int(value) <= relation.max_limit:
        raise InvalidExpand(
            message=f"The relation {relation.name!r} takes a limit from 1 to {relation.max_limit}.",
            param=param,
        )
    return int(value)


def _column(records: Sequence[VisibleRecord], expansion: Expansion) -> list[Related]:
    """What one relation leads to, for each record."""
    relation, child = expansion.relation, expansion.child
    if relation.cardinality == "has_one":
        keys = [_target(record, relation.foreign_key) for record in records]
        found = singles(child, filter(None, keys))
        return [found.get(key) if key is not None else None for key in keys]
    parents = [Key(record.connection.connection_id, record.record_key) for record in records]
    children = several(child, relation.foreign_key, parents, limit=expansion.limit + 1)
    return [_cut(children, parent, expansion.limit) for parent in parents]


def _cut(children: Mapping[Key, Sequence[VisibleRecord]], parent: Key, limit: int) -> Children:
    found = children.get(parent, ())
    return Children(found[:limit], has_more=len(found) > limit)


def _target(record: VisibleRecord, foreign_key: str) -> Key | None:
    """The record that one points at, in its own connection."""
    key = key_text(record.data.get(foreign_key))
    return None if key is None else Key(record.connection.connection_id, key)
