"""Which relations a token may expand, and how far: what the grants froze and what is declared now."""

from dataclasses import replace

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.rows import VisibleRecords
from evidence.access.scope import Everything, FrozenRelation
from evidence.access.visible import Sight
from evidence.declarations.types import Relation


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
