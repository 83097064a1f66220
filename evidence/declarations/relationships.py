"""Whether the relations of a stream, and what `query.expand` makes of them, hold together."""

from collections.abc import Mapping

from evidence.declarations import names
from evidence.declarations.capabilities import Fields
from evidence.declarations.faults import FaultCode, Spot

CARDINALITIES = ("has_many", "has_one")

Streams = Mapping[str, Fields]


def check_relationships(stream: Spot, *, own: Fields, streams: Streams) -> None:
    """Report what is wrong with `relationships` and `query.expand`. `own` are the fields of this
    stream, `streams` those of every stream by name."""
    cardinalities: dict[str, str | None] = {}
    relationships = stream.member("relationships")
    if relationships.sequence():
        for spot in relationships.items():
            _check_relationship(spot, own=own, streams=streams, seen=cardinalities)
    expand = stream.member("query").member("expand")
    if expand.sequence():
        seen: set[str] = set()
        for spot in expand.items():
            _check_expand(spot, cardinalities=cardinalities, seen=seen)


def _check_relationship(
    spot: Spot, *, own: Fields, streams: Streams, seen: dict[str, str | None]
) -> None:
    if not spot.mapping(required=True):
        return
    name = names.relation_name(spot.member("name"))
    cardinality = spot.member("cardinality").choice(CARDINALITIES, required=True)
    if name is not None:
        if name in seen:
            spot.member("name").report(
                FaultCode.DUPLICATE_RELATIONSHIP_NAME, "Another relation has this name."
            )
        seen[name] = cardinality
    _check_target(spot, own=own, streams=streams, cardinality=cardinality)


def _check_target(spot: Spot, *, own: Fields, streams: Streams, cardinality: str | None) -> None:
    """`Relation` says on which side the foreign key stands."""
    target = spot.member("stream").text(required=True)
    key = spot.member("foreign_key").text(required=True)
    if target is not None and target not in streams:
        spot.member("stream").report(FaultCode.UNKNOWN_STREAM, "No stream has this name.")
        return
    if target is None or key is None or cardinality is None:
        return
    if key not in (streams[target] if cardinality == "has_many" else own):
        holder = "the related stream" if cardinality == "has_many" else "this stream"
        spot.member("foreign_key").report(
            FaultCode.UNKNOWN_SCHEMA_FIELD,
            f"With {cardinality} it must be a property in the schema of {holder}.",
        )


def _check_expand(spot: Spot, *, cardinalities: Mapping[str, str | None], seen: set[str]) -> None:
    if not spot.mapping(required=True):
        return
    name = spot.member("name").text(required=True)
    least, most = spot.member("default_limit").count(), spot.member("max_limit").count()
    if least is not None and most is not None and least > most:
        spot.report(FaultCode.INVALID_EXPAND_LIMITS, "default_limit is above max_limit.")
    if name is None:
        return
    if name in seen:
        spot.member("name").report(FaultCode.DUPLICATE_EXPAND_NAME, "Is expandable already.")
    seen.add(name)
    if name not in cardinalities:
        spot.member("name").report(FaultCode.UNKNOWN_RELATIONSHIP, "No relation has this name.")
    elif cardinalities[name] == "has_one" and (least is not None or most is not None):
        spot.report(FaultCode.INVALID_EXPAND_LIMITS, "A has_one relation takes no limits.")
